// SPDX-License-Identifier: Apache-2.0
// Which networks the launcher pod must ask for now: the network selection annotation.
import {
  isAbsent,
  isDefaultNetwork,
  isReadableSelection,
  NETWORKS_MAX,
  type BindingRegistry,
  type Iface,
  type KeptAddresses,
  type Network,
  type NetworkSelection,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { keptIpsFor } from "../../addresses/kept-addresses.ts";
import { bindingOf } from "../../bindings/resolve-binding.ts";
import { extraInterfaceNameOf, isOwnPodInterfaceName } from "../../iface/names.ts";
import { nicsOfElements, podNicOf } from "../../iface/pod-nic.ts";
import type { NetworkAbsences } from "../../node/definitions.ts";
import { ifacesWithoutPort } from "../../pcie/ports.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifiedName } from "../../spec/nics.ts";

/** The element of one iface; keys in KubeVirt's order. Source: KubeVirt network/multus/annotation.go. */
function elementOf(
  iface: Iface,
  network: Network,
  names: { readonly podInterfaceName: string; readonly namespace: string },
): NetworkSelection {
  return {
    ...definitionOf(network.multus?.networkName ?? "", names.namespace),
    ...(iface.macAddress === undefined ? {} : { mac: iface.macAddress }),
    interface: names.podInterfaceName,
    ...(iface.ips === undefined ? {} : { ips: iface.ips }),
    ...(iface.ipamClaimName === undefined ? {} : { "ipam-claim-reference": iface.ipamClaimName }),
    ...(iface.cniArgs === undefined ? {} : { "cni-args": iface.cniArgs }),
  };
}

/** The element, preferring what the NIC had on that network. */
function withPreferredAddresses(
  element: NetworkSelection,
  iface: Iface,
  kept: readonly KeptAddresses[] = [],
): NetworkSelection {
  const networkName = `${element.namespace ?? ""}/${element.name}`;
  const ips = keptIpsFor(iface, networkName, kept);
  return ips.length === 0 ? element : { ...element, "io.patchbay.kept-ips": ips };
}

/** NAME, or NAMESPACE/NAME, of a definition; `namespace` is that of the VMI. */
function definitionOf(
  networkName: string,
  namespace: string,
): Pick<NetworkSelection, "name"> & { readonly namespace: string } {
  const slash = networkName.indexOf("/");
  return {
    name: networkName.slice(slash + 1),
    namespace: slash < 0 ? namespace : networkName.slice(0, slash),
  };
}

/** The element of the network that a binding brings along. Source: KubeVirt network/multus/annotation.go. */
function extraElementOf(
  { name }: Network,
  extraNetwork: string,
  names: { readonly podInterfaceName: string; readonly namespace: string },
): NetworkSelection {
  return {
    ...definitionOf(extraNetwork, names.namespace),
    interface: extraInterfaceNameOf(names.podInterfaceName),
    // By it the plugin finds the name of the NIC in the pod.
    "cni-args": { logicNetworkName: name },
  };
}

/** Whose networks the pod is to have. */
export interface NetworksOwner {
  readonly vmi: VirtualMachineInstance;
  /** What the cluster has registered. */
  readonly bindings: BindingRegistry;
  /** Networks that the pod's node cannot make NICs of: they are not asked for anew. */
  readonly absences?: NetworkAbsences;
  /** What the NICs had before, while the pod is made; a NIC that comes later prefers nothing. */
  readonly kept?: readonly KeptAddresses[];
}

/**
 * The elements that the spec asks for, in the order of the ifaces; none for one that cannot become a NIC, nor for a name
 * that slipped past admission: it would make the whole annotation unreadable.
 */
function wantedElements(
  { vmi, bindings, kept }: NetworksOwner,
  current: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const namespace = vmi.metadata.namespace ?? "";
  const attachments = vmi.status?.attachments ?? [];
  const known = { namespace, attachments, nics: nicsOfElements(current, namespace) };
  const portless = ifacesWithoutPort(vmi, vmi.spec, bindings);
  return ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined || isAbsent(iface) || portless.has(iface.name)) return [];
    const binding = bindingOf(iface, network, bindings);
    if (binding.kind === "refused") return [];
    const names = { podInterfaceName: podNicOf(network, known), namespace };
    const { extraNetwork } = binding;
    return [
      ...(isDefaultNetwork(network)
        ? []
        : [withPreferredAddresses(elementOf(iface, network, names), iface, kept)]),
      ...(extraNetwork === undefined ? [] : [extraElementOf(network, extraNetwork, names)]),
    ].filter(isReadableSelection);
  });
}

/** The networks that the VMI names, and those that its bindings bring along, as NAMESPACE/NAME, each once. */
export function networkNamesOf(
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): readonly string[] {
  const namespace = vmi.metadata.namespace ?? "";
  const networks = networksOf(vmi.spec);
  const named = networks.flatMap((network) => networkNameOf(network, namespace) ?? []);
  const brought = ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networks, iface.name);
    const binding = network && bindingOf(iface, network, bindings);
    if (binding === undefined || binding.kind === "refused") return [];
    return binding.extraNetwork === undefined ? [] : qualifiedName(binding.extraNetwork, namespace);
  });
  return [...new Set([...named, ...brought])];
}

type Claim = "wanted" | "in-use" | "released" | "unknown";

/** What the VMI says of a pod NIC of ours; without an attachment virt-handler was never told of it. */
function claimOf(
  vmi: VirtualMachineInstance,
  wanted: readonly NetworkSelection[],
  podInterfaceName: string,
): Claim {
  const attachment = vmi.status?.attachments?.find(({ podInterfaceName: own }) =>
    [own, extraInterfaceNameOf(own)].includes(podInterfaceName),
  );
  if (attachment?.state === "Removing") return "released";
  if (wanted.some((element) => element.interface === podInterfaceName)) return "wanted";
  return attachment === undefined ? "unknown" : "in-use";
}

/**
 * The elements of the annotation: what is there stays in place until virt-handler has let go of it, what is new is
 * appended in the order of the ifaces, as far as the annotation can hold it; foreign elements are kept. An iface that
 * changes its network has two.
 */
export function planPodNetworks(
  owner: NetworksOwner,
  current: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const wanted = wantedElements(owner, current);
  const stays = (name: string): boolean => {
    const claim = claimOf(owner.vmi, wanted, name);
    return claim === "wanted" || claim === "in-use";
  };
  const kept = current.filter(
    ({ interface: name }) => name === undefined || !isOwnPodInterfaceName(name) || stays(name),
  );
  const added = wanted.filter(
    (element) =>
      owner.absences?.has(`${element.namespace ?? ""}/${element.name}`) !== true &&
      !current.some(({ interface: name }) => name === element.interface) &&
      stays(element.interface ?? ""),
  );
  return [...kept, ...added].slice(0, NETWORKS_MAX);
}
