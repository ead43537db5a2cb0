// SPDX-License-Identifier: Apache-2.0
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
  parseRequestedAddresses,
  type RetainedAddresses,
  type RetainedMac,
  type NetworkSelection,
} from "@patchbay/api/annotations";
import { findPreferredIps, hasOwnAddressing } from "../../nics/addresses/retained-addresses.ts";
import { requestMac } from "../../nics/mac.ts";
import { resolveBinding } from "../../nics/bindings/resolve-binding.ts";
import { buildExtraInterfaceName, isOwnPodInterfaceName } from "../../nics/names.ts";
import { toPodNics, choosePodNic } from "../../nics/pod-nic.ts";
import type { UnavailableNetworks } from "../../node/definitions.ts";
import { findIfacesWithoutPort } from "../../nics/pcie/ports.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifyName } from "../../nics/nics.ts";
import { isAwaited, type IpamClaimStates } from "../ipam-claims.ts";

function findRequestedIps({ metadata }: VirtualMachineInstance, name: string): readonly string[] {
  return parseRequestedAddresses(metadata).get(name) ?? [];
}

/** Builds the interface's element of the networks annotation. Keys have KubeVirt's order. Source: KubeVirt network/multus/annotation.go. */
function toElement(
  iface: Iface,
  network: Network,
  names: { readonly podInterfaceName: string; readonly namespace: string },
  { vmi, retainedMacs: retained = [], ipamClaims }: NetworksOwner,
): NetworkSelection {
  const networkName = networkNameOf(network, names.namespace) ?? "";
  const state = ipamClaims?.get(iface.name);
  const claimName = state?.kind === "usable" ? state.name : iface.ipamClaimName;
  const requested = hasOwnAddressing(iface) ? [] : findRequestedIps(vmi, iface.name);
  // If there is an IPAMClaim, the element omits the requested addresses, because the claim contains them.
  const ips = claimName === undefined && requested.length > 0 ? requested : iface.ips;
  return {
    ...splitNetworkName(network.multus?.networkName ?? "", names.namespace),
    ...requestMac(iface, vmi, { networkName, retained }),
    interface: names.podInterfaceName,
    ...(ips === undefined ? {} : { ips }),
    ...(claimName === undefined ? {} : { "ipam-claim-reference": claimName }),
    ...(iface.cniArgs === undefined ? {} : { "cni-args": iface.cniArgs }),
  };
}

function withPreferredAddresses(
  element: NetworkSelection,
  iface: Iface,
  lastAddresses: readonly RetainedAddresses[] = [],
): NetworkSelection {
  const isChosen = element["ipam-claim-reference"] !== undefined || element.ips !== undefined;
  if (isChosen) return element;
  const networkName = `${element.namespace ?? ""}/${element.name}`;
  const ips = findPreferredIps(iface, networkName, lastAddresses);
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

/** Builds the networks annotation's element for a binding's additional network. Source: KubeVirt network/multus/annotation.go. */
function toExtraElement(
  { name }: Network,
  extraNetwork: string,
  names: { readonly podInterfaceName: string; readonly namespace: string },
): NetworkSelection {
  return {
    ...splitNetworkName(extraNetwork, names.namespace),
    interface: buildExtraInterfaceName(names.podInterfaceName),
    // The additional network's CNI plugin derives the pod NIC's name from `logicNetworkName`.
    "cni-args": { logicNetworkName: name },
  };
}

export interface NetworksOwner {
  readonly vmi: VirtualMachineInstance;
  readonly bindings: BindingRegistry;
  /** Networks for which the node cannot create NICs. The annotation omits them. */
  readonly absences?: UnavailableNetworks;
  /** Addresses of the NICs in the previous pod. Set only when a pod is created. */
  readonly retainedAddresses?: readonly RetainedAddresses[];
  /** MACs that the networks assigned to the previous guest. Set only when a pod is created. */
  readonly retainedMacs?: readonly RetainedMac[];
  readonly ipamClaims?: IpamClaimStates;
}

/** Lists the elements of all wanted interfaces. Omits elements with invalid names, because one would invalidate the whole annotation. */
function listWantedElements(
  owner: NetworksOwner,
  currentElements: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const { vmi, bindings, retainedAddresses: lastAddresses } = owner;
  const namespace = vmi.metadata.namespace ?? "";
  const attachments = vmi.status?.attachments ?? [];
  const sources = { namespace, attachments, nics: toPodNics(currentElements, namespace) };
  const portless = findIfacesWithoutPort(vmi, vmi.spec, bindings);
  return ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    // A driver attaches the devices of resource claims, so the annotation omits them.
    if (network === undefined || network.resourceClaim !== undefined) return [];
    if (isAbsent(iface) || portless.has(iface.name)) return [];
    const binding = resolveBinding(iface, network, bindings);
    if (binding.kind === "refused") return [];
    const names = { podInterfaceName: choosePodNic(network, sources), namespace };
    const isRequested = currentElements.some((each) => each.interface === names.podInterfaceName);
    if (!isRequested && isAwaited(owner.ipamClaims?.get(iface.name))) return [];
    const { extraNetwork } = binding;
    return [
      ...(isDefaultNetwork(network)
        ? []
        : [withPreferredAddresses(toElement(iface, network, names, owner), iface, lastAddresses)]),
      ...(extraNetwork === undefined ? [] : [toExtraElement(network, extraNetwork, names)]),
    ].filter(isReadableSelection);
  });
}

/** Returns NAMESPACE/NAME of the network that replaces the pod's default network. Returns undefined if no network replaces it. */
export function findDefaultNetworkName({
  metadata,
  spec,
}: VirtualMachineInstance): string | undefined {
  const network = networksOf(spec).find(isDefaultNetwork);
  return network === undefined ? undefined : networkNameOf(network, metadata.namespace ?? "");
}

/** Lists NAMESPACE/NAME of the VMI's networks and of its bindings' additional networks, without duplicates. */
export function listNetworkNames(
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): readonly string[] {
  const namespace = vmi.metadata.namespace ?? "";
  const networks = networksOf(vmi.spec);
  const networkNames = networks.flatMap((network) => networkNameOf(network, namespace) ?? []);
  const extraNetworkNames = ifacesOf(vmi.spec).flatMap((iface) => {
    const network = findByName(networks, iface.name);
    const binding = network && resolveBinding(iface, network, bindings);
    if (binding === undefined || binding.kind === "refused") return [];
    return binding.extraNetwork === undefined ? [] : qualifyName(binding.extraNetwork, namespace);
  });
  return [...new Set([...networkNames, ...extraNetworkNames])];
}

type NicUse = "wanted" | "in-use" | "released" | "unknown";

/** Returns how a pod NIC is used. `unknown` means that the NIC is not wanted and has no attachment. */
function findNicUse(
  vmi: VirtualMachineInstance,
  wantedElements: readonly NetworkSelection[],
  podInterfaceName: string,
): NicUse {
  const attachment = vmi.status?.attachments?.find(({ podInterfaceName: candidateName }) =>
    [candidateName, buildExtraInterfaceName(candidateName)].includes(podInterfaceName),
  );
  if (attachment?.state === "Removing") return "released";
  if (wantedElements.some((element) => element.interface === podInterfaceName)) return "wanted";
  return attachment === undefined ? "unknown" : "in-use";
}

/**
 * Plans the network selection annotation. Retains all elements of other components. Retains an element of Patchbay until
 * virt-handler has released its NIC. An interface has two elements during a network swap.
 */
export function planPodNetworks(
  owner: NetworksOwner,
  currentElements: readonly NetworkSelection[],
): readonly NetworkSelection[] {
  const wantedElements = listWantedElements(owner, currentElements);
  const isRetained = (name: string): boolean => {
    const nicUse = findNicUse(owner.vmi, wantedElements, name);
    return nicUse === "wanted" || nicUse === "in-use";
  };
  const retainedElements = currentElements.filter(
    ({ interface: name }) => name === undefined || !isOwnPodInterfaceName(name) || isRetained(name),
  );
  const addedElements = wantedElements.filter(
    (element) =>
      owner.absences?.has(`${element.namespace ?? ""}/${element.name}`) !== true &&
      !currentElements.some(({ interface: name }) => name === element.interface) &&
      isRetained(element.interface ?? ""),
  );
  return [...retainedElements, ...addedElements].slice(0, NETWORKS_MAX);
}
