// SPDX-License-Identifier: Apache-2.0
// The launcher pod's network selection annotation.
import {
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type Network,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  isReadableSelection,
  NETWORKS_MAX,
  type RetainedAddresses,
  type NetworkSelection,
} from "@patchbay/api/annotations";
import { findPreferredIps } from "../../nics/addresses/retained-addresses.ts";
import { resolveBinding } from "../../nics/bindings/resolve-binding.ts";
import { buildExtraInterfaceName, isOwnPodInterfaceName } from "../../nics/names.ts";
import { toPodNics, choosePodNic } from "../../nics/pod-nic.ts";
import type { UnavailableNetworks } from "../../node/definitions.ts";
import { findIfacesWithoutPort } from "../../nics/pcie/ports.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifyName } from "../../nics/nics.ts";

/** Builds the interface's element with keys in KubeVirt's order. Source: KubeVirt network/multus/annotation.go. */
function toElement(
  iface: Iface,
  network: Network,
  names: { readonly podInterfaceName: string; readonly namespace: string },
): NetworkSelection {
  return {
    ...splitNetworkName(network.multus?.networkName ?? "", names.namespace),
    ...(iface.macAddress === undefined ? {} : { mac: iface.macAddress }),
    interface: names.podInterfaceName,
    ...(iface.ips === undefined ? {} : { ips: iface.ips }),
    ...(iface.ipamClaimName === undefined ? {} : { "ipam-claim-reference": iface.ipamClaimName }),
    ...(iface.cniArgs === undefined ? {} : { "cni-args": iface.cniArgs }),
  };
}

function withPreferredAddresses(
  element: NetworkSelection,
  iface: Iface,
  retained: readonly RetainedAddresses[] = [],
): NetworkSelection {
  const networkName = `${element.namespace ?? ""}/${element.name}`;
  const ips = findPreferredIps(iface, networkName, retained);
  return ips.length === 0 ? element : { ...element, "io.patchbay.kept-ips": ips };
}

function splitNetworkName(
  networkName: string,
  namespace: string,
): Pick<NetworkSelection, "name"> & { readonly namespace: string } {
  const slash = networkName.indexOf("/");
  return {
    name: networkName.slice(slash + 1),
    namespace: slash < 0 ? namespace : networkName.slice(0, slash),
  };
}

/** Builds the element of a binding's additional network. Source: KubeVirt network/multus/annotation.go. */
function toExtraElement(
  { name }: Network,
  extraNetwork: string,
  names: { readonly podInterfaceName: string; readonly namespace: string },
): NetworkSelection {
  return {
    ...splitNetworkName(extraNetwork, names.namespace),
    interface: buildExtraInterfaceName(names.podInterfaceName),
    // The plugin derives the pod NIC's name from this name.
    "cni-args": { logicNetworkName: name },
  };
}

export interface NetworksOwner {
  readonly vmi: VirtualMachineInstance;
  readonly bindings: BindingRegistry;
  /** Networks for which the node cannot create NICs. They are not added to the annotation. */
  readonly absences?: UnavailableNetworks;
  /** Previous addresses, at pod creation only. */
  readonly retainedAddresses?: readonly RetainedAddresses[];
}

/** Lists the elements of all wanted interfaces. Omits invalid names, which would make the whole annotation unreadable. */
function listWantedElements(
  { vmi, bindings, retainedAddresses: retained }: NetworksOwner,
  current: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const namespace = vmi.metadata.namespace ?? "";
  const attachments = vmi.status?.attachments ?? [];
  const known = { namespace, attachments, nics: toPodNics(current, namespace) };
  const portless = findIfacesWithoutPort(vmi, vmi.spec, bindings);
  return ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined || isAbsent(iface) || portless.has(iface.name)) return [];
    const binding = resolveBinding(iface, network, bindings);
    if (binding.kind === "refused") return [];
    const names = { podInterfaceName: choosePodNic(network, known), namespace };
    const { extraNetwork } = binding;
    return [
      ...(isDefaultNetwork(network)
        ? []
        : [withPreferredAddresses(toElement(iface, network, names), iface, retained)]),
      ...(extraNetwork === undefined ? [] : [toExtraElement(network, extraNetwork, names)]),
    ].filter(isReadableSelection);
  });
}

/** Returns NAMESPACE/NAME of the VMI's networks and of its bindings' additional networks, each once. */
export function listNetworkNames(
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): readonly string[] {
  const namespace = vmi.metadata.namespace ?? "";
  const networks = networksOf(vmi.spec);
  const named = networks.flatMap((network) => networkNameOf(network, namespace) ?? []);
  const extra = ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networks, iface.name);
    const binding = network && resolveBinding(iface, network, bindings);
    if (binding === undefined || binding.kind === "refused") return [];
    return binding.extraNetwork === undefined ? [] : qualifyName(binding.extraNetwork, namespace);
  });
  return [...new Set([...named, ...extra])];
}

type NicUse = "wanted" | "in-use" | "released" | "unknown";

/** Returns how a pod NIC is used. A NIC that is not wanted and has no attachment is unknown. */
function findNicUse(
  vmi: VirtualMachineInstance,
  wanted: readonly NetworkSelection[],
  podInterfaceName: string,
): NicUse {
  const attachment = vmi.status?.attachments?.find(({ podInterfaceName: own }) =>
    [own, buildExtraInterfaceName(own)].includes(podInterfaceName),
  );
  if (attachment?.state === "Removing") return "released";
  if (wanted.some((element) => element.interface === podInterfaceName)) return "wanted";
  return attachment === undefined ? "unknown" : "in-use";
}

/**
 * Plans the annotation. Retains elements until virt-handler has released their NICs, and elements of other components
 * always. Appends new elements in interface order, up to the annotation's limit. During a network swap an interface has two elements.
 */
export function planPodNetworks(
  owner: NetworksOwner,
  current: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const wanted = listWantedElements(owner, current);
  const isRetained = (name: string): boolean => {
    const use = findNicUse(owner.vmi, wanted, name);
    return use === "wanted" || use === "in-use";
  };
  const retained = current.filter(
    ({ interface: name }) => name === undefined || !isOwnPodInterfaceName(name) || isRetained(name),
  );
  const added = wanted.filter(
    (element) =>
      owner.absences?.has(`${element.namespace ?? ""}/${element.name}`) !== true &&
      !current.some(({ interface: name }) => name === element.interface) &&
      isRetained(element.interface ?? ""),
  );
  return [...retained, ...added].slice(0, NETWORKS_MAX);
}
