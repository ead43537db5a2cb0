// SPDX-License-Identifier: Apache-2.0
// Tells a kubelet of a plugin.
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/core/ports";
import { askKubelet } from "./ask-kubelet.ts";
import { loadServices, type RegisterRequest } from "./protocol.ts";

/**
 * Registers a plugin, which must be listening.
 * @throws AppError with DEVICE_NOT_REGISTERED
 */
export async function register(
  kubeletSocket: string,
  request: RegisterRequest,
  clock: Pick<Clock, "now">,
): Promise<void> {
  const service = loadServices().registration;
  try {
    await askKubelet(kubeletSocket, { service, method: "Register", request }, clock);
  } catch (cause) {
    const { resourceName: resource } = request;
    const reason = messageOf(cause);
    throw new AppError("DEVICE_NOT_REGISTERED", { resource, kubeletSocket, reason }, { cause });
  }
}
