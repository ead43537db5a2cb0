// SPDX-License-Identifier: Apache-2.0
// One question to a kubelet, over a connection of its own.
import {
  Client,
  credentials,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import type { Clock } from "@patchbay/core/ports";

/** How long a kubelet may take to answer, milliseconds. */
const TIMEOUT_MS = 10_000;
/** As large as its own clients take them, bytes. Source: kubelet podresources, defaultPodResourcesMaxSize. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

const OPTIONS = {
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
};

/** What is asked, of which service of a .proto. */
export interface Question {
  readonly service: ServiceDefinition;
  readonly method: string;
  readonly request: object;
}

/** Asks at the absolute path of a socket. @throws the ServiceError of a kubelet that is away, too slow, or refuses */
export async function askKubelet<Answer>(
  socket: string,
  { service, method, request }: Question,
  clock: Pick<Clock, "now">,
): Promise<Answer> {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), OPTIONS);
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const answer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(response as Answer); // as the .proto says
    else reject(error);
  };
  // Its types are those of the .proto.
  const {
    path,
    requestSerialize: to,
    responseDeserialize: from,
  } = service[method] as MethodDefinition<object, unknown>;
  const deadline = clock.now() + TIMEOUT_MS;
  client.makeUnaryRequest(path, to, from, request, { deadline }, answer);
  try {
    return await promise;
  } finally {
    client.close();
  }
}
