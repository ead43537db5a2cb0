// SPDX-License-Identifier: Apache-2.0
// Defaults that admission sets for interfaces.
import { listBindings, isDefaultNetwork, type Iface, type Network } from "../kinds/network.ts";
import type { AutoBinding } from "../kinds/kubevirt-config.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { findByName } from "../values/memoize.ts";

export function isSecondary(iface: Iface, networks: readonly Network[]): boolean {
  const network = findByName(networks, iface.name);
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** Adds `bridge` to an interface without a binding if the network is secondary. Source: KubeVirt v1.0 AddInterfaceOptions. */
export function withDefaultBinding(iface: Iface, networks: readonly Network[]): Iface {
  return listBindings(iface).length > 0 || !isSecondary(iface, networks)
    ? iface
    : { ...iface, bridge: {} };
}

/** Name of the default network and NIC. Source: KubeVirt DefaultPodNetwork. */
const DEFAULT_NIC_NAME = "default";

export function declaresNoNics({ networks, domain }: VmiSpec): boolean {
  return (networks ?? []).length === 0 && (domain.devices?.interfaces ?? []).length === 0;
}

/** Builds the default NIC; undefined if `autoattachPodInterface` is false. Source: KubeVirt SetDefaultNetworkInterface. */
export function buildAutoNic(
  { domain }: VmiSpec,
  binding: AutoBinding,
): { readonly network: Network; readonly iface: Iface } | undefined {
  if (domain.devices?.autoattachPodInterface === false) return undefined;
  return {
    network: { name: DEFAULT_NIC_NAME, pod: {} },
    iface: { name: DEFAULT_NIC_NAME, [binding]: {} },
  };
}

export function findAutoNic(
  spec: VmiSpec,
): { readonly network: Network; readonly iface: Iface } | undefined {
  const [networks, ifaces] = [spec.networks ?? [], spec.domain.devices?.interfaces ?? []];
  const [[network], [iface]] = [networks, ifaces];
  if (network === undefined || iface === undefined) return undefined;
  const isOnlyNic = networks.length === 1 && ifaces.length === 1;
  const hasDefaultName = [network, iface].every(({ name }) => name === DEFAULT_NIC_NAME);
  return isOnlyNic && hasDefaultName && network.pod !== undefined ? { network, iface } : undefined;
}
