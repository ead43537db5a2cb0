// SPDX-License-Identifier: Apache-2.0
// What admission fills in where nothing was said.
import { bindingsOf, isDefaultNetwork, type Iface, type Network } from "../kinds/network.ts";
import type { AutoBinding } from "../kinds/kubevirt-config.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

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

/** Name of the network and of the NIC that a VM without any gets. Source: KubeVirt DefaultPodNetwork. */
const AUTO_NAME = "default";

/** Whether a specification declares neither networks nor NICs. */
export function declaresNoNics({ networks, domain }: VmiSpec): boolean {
  return (networks ?? []).length === 0 && (domain.devices?.interfaces ?? []).length === 0;
}

/** The NIC on the pod's network that a new VM gets that declares none, unless it says otherwise. Source: KubeVirt SetDefaultNetworkInterface. */
export function autoNicOf(
  { domain }: VmiSpec,
  binding: AutoBinding,
): { readonly network: Network; readonly iface: Iface } | undefined {
  if (domain.devices?.autoattachPodInterface === false) return undefined;
  return {
    network: { name: AUTO_NAME, pod: {} },
    iface: { name: AUTO_NAME, [binding]: {} },
  };
}

/** That NIC of a specification, if it is the only one that is declared there. */
export function findAutoNic(
  spec: VmiSpec,
): { readonly network: Network; readonly iface: Iface } | undefined {
  const [networks, ifaces] = [spec.networks ?? [], spec.domain.devices?.interfaces ?? []];
  const [[network], [iface]] = [networks, ifaces];
  if (network === undefined || iface === undefined) return undefined;
  const isAlone = networks.length === 1 && ifaces.length === 1;
  const isAuto = [network, iface].every(({ name }) => name === AUTO_NAME);
  return isAlone && isAuto && network.pod !== undefined ? { network, iface } : undefined;
}
