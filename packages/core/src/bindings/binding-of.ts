// SPDX-License-Identifier: Apache-2.0
// How an iface is bound, or why it cannot be: the one guard of every door to a running guest.
import { unbuiltPartOf, type BindingRegistry, type Iface, type Network } from "@patchbay/api";
import type { Binding, BindingRefusal } from "./binding.ts";

/**
 * How the iface is bound. With a refusal it gets no annotation element, no link and no device, and a VM with it is not
 * started. `registry` is what the cluster has registered; the network is the one of the iface's name.
 */
export function bindingOf(
  iface: Iface,
  _network: Network | undefined,
  _registry: BindingRegistry,
): Binding | BindingRefusal {
  const unbuilt = unbuiltPartOf(iface);
  if (unbuilt !== undefined) return { kind: "refused", ...unbuilt };
  return { kind: iface.masquerade === undefined ? "bridge" : "masquerade" };
}
