// SPDX-License-Identifier: Apache-2.0
// What admission fills in where nothing was said.
import { isDefaultNetwork, type Iface, type Network } from "../network.ts";

const BINDINGS = ["bridge", "masquerade", "sriov", "binding", "passtBinding"] as const;
const OLD_BINDINGS = ["slirp", "passt", "macvtap"] as const;

function hasBinding(iface: Iface): boolean {
  return [...BINDINGS, ...OLD_BINDINGS].some((name) => name in iface);
}

/** Whether the iface joins a network that is not the pod's default one. */
export function isSecondary(iface: Iface, networks: readonly Network[]): boolean {
  const network = networks.find((each) => each.name === iface.name);
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** The iface with `bridge` when it is on a secondary network and names no binding. Source: KubeVirt v1.0 AddInterfaceOptions. */
export function withDefaultBinding(iface: Iface, networks: readonly Network[]): Iface {
  return hasBinding(iface) || !isSecondary(iface, networks) ? iface : { ...iface, bridge: {} };
}
