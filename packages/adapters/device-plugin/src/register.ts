// SPDX-License-Identifier: Apache-2.0
// Tells a kubelet of a plugin.
import { Client, credentials, type MethodDefinition, type ServiceError } from "@grpc/grpc-js";
import { AppError } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/core/ports";
import { loadServices, type RegisterRequest } from "./protocol.ts";

/** How long a kubelet may take to answer, milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Registers a plugin, which must be listening.
 * @throws AppError with DEVICE_NOT_REGISTERED
 */
export async function register(
  kubeletSocket: string,
  request: RegisterRequest,
  clock: Pick<Clock, "now">,
): Promise<void> {
  const target = `unix:${kubeletSocket}`;
  const options = { "grpc.enable_http_proxy": 0, "grpc.use_local_subchannel_pool": 1 };
  const client = new Client(target, credentials.createInsecure(), options);
  const method = loadServices().registration["Register"] as MethodDefinition<object, unknown>; // of the .proto
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const answer = (error: ServiceError | null): void => {
    if (error === null) resolve(undefined);
    else reject(error);
  };
  const { path, requestSerialize, responseDeserialize } = method;
  const deadline = clock.now() + TIMEOUT_MS;
  client.makeUnaryRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    { deadline },
    answer,
  );
  try {
    await promise;
  } catch (cause) {
    const { resourceName: resource } = request;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new AppError("DEVICE_NOT_REGISTERED", { resource, kubeletSocket, reason }, { cause });
  } finally {
    client.close();
  }
}
