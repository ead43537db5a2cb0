// SPDX-License-Identifier: Apache-2.0
// Is a VM to be ready for NICs that speak vhost-user?
import { names, type BindingRegistry, type VmiSpec } from "@patchbay/api";
import { bindingIn } from "./binding-of.ts";
import { ifacesOf } from "../spec/nics.ts";

/** Whether it says so itself, by asking for sockets among its resources, since such NICs may come later. */
function asksForSockets({ domain }: VmiSpec): boolean {
  const { requests, limits } = domain.resources ?? {};
  return [requests, limits].some(
    (amounts) => Number(amounts?.[names.VHOST_USER_RESOURCE] ?? 0) > 0,
  );
}

/**
 * Whether the guest's memory is to be shared with who serves the sockets, and its pod to have a directory of them: it has
 * such a NIC, or asks for sockets.
 */
export function isForVhostUser(spec: VmiSpec, bindings: BindingRegistry): boolean {
  const speaks = ifacesOf(spec).some(
    (iface) => bindingIn(spec, iface, bindings).kind === "vhostuser",
  );
  return speaks || asksForSockets(spec);
}
