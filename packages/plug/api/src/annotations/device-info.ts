// SPDX-License-Identifier: Apache-2.0
// What a network's plugin tells of a NIC that is no link of the kernel. Source: NPWG device information 1.1.0 section 4.

import { isJsonObject } from "../values/json.ts";

/** A socket over which a guest's NIC and a process of the node speak vhost-user. */
export interface VhostUserInfo {
  /** `client`: the process of the node listens, the guest's side connects; `server`: the other way round. */
  readonly mode: string;
  readonly path: string;
}

const TYPE = "vhost-user";

/** The socket of a device information; undefined: it tells of another kind of device, or of none. */
export function vhostUserOf(deviceInfo: unknown): VhostUserInfo | undefined {
  if (!isJsonObject(deviceInfo) || deviceInfo["type"] !== TYPE) return undefined;
  const told = deviceInfo[TYPE];
  const { mode, path } = isJsonObject(told) ? told : {};
  return {
    mode: typeof mode === "string" ? mode : "",
    path: typeof path === "string" ? path : "",
  };
}
