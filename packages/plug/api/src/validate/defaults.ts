// SPDX-License-Identifier: Apache-2.0
// What admission fills in where nothing was said.
import { bindingsOf } from "../kinds/binding.ts";
import { isDefaultNetwork, type Iface, type Network } from "../kinds/network.ts";

/** Whether the iface joins a network that is not the pod's default one. */
export function isSecondary(iface: Iface, networks: readonly Network[]): boolean {
  const network = networks.find((each) => each.name === iface.name);
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** The iface with `bridge` when it is on a secondary network and names no binding. Source: KubeVirt v1.0 AddInterfaceOptions. */
export function withDefaultBinding(iface: Iface, networks: readonly Network[]): Iface {
  return bindingsOf(iface).length > 0 || !isSecondary(iface, networks)
    ? iface
    : { ...iface, bridge: {} };
}
