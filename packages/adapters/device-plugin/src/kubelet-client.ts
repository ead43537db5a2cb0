// SPDX-License-Identifier: Apache-2.0
import {
  Client,
  credentials,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import type { Clock } from "@patchbay/base";

const TIMEOUT_MS = 10_000;
/** Maximum size of a response, in bytes. Source: kubelet podresources, defaultPodResourcesMaxSize */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

const OPTIONS = {
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
};

interface KubeletRequest {
  readonly service: ServiceDefinition;
  readonly method: string;
  readonly request: object;
}

/** @throws ServiceError if the kubelet is unreachable, times out, or rejects the request */
export async function callKubelet<Answer>(
  socket: string,
  { service, method, request }: KubeletRequest,
  clock: Pick<Clock, "now">,
): Promise<Answer> {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), OPTIONS);
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const onAnswer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(response as Answer);
    else reject(error);
  };
  const {
    path,
    requestSerialize: serialize,
    responseDeserialize: deserialize,
  } = service[method] as MethodDefinition<object, unknown>;
  const deadline = clock.now() + TIMEOUT_MS;
  client.makeUnaryRequest(path, serialize, deserialize, request, { deadline }, onAnswer);
  try {
    return await promise;
  } finally {
    client.close();
  }
}
