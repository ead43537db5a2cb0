// SPDX-License-Identifier: Apache-2.0
// IPAMClaims, by which a network retains the addresses of a VM's NICs. Source: KubeVirt ipam-extensions.
import {
  apiVersionOf,
  IPAM_CLAIMS,
  isAbsent,
  isDefaultNetwork,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type Attachment,
  type Iface,
  type IpamClaim,
  type Network,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import {
  normalizeAddresses,
  parseNetworks,
  parseRequestedAddresses,
  type NetworkSelection,
  type RequestedAddresses,
} from "@patchbay/api/annotations";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { findController, type KubeObject, type Pod } from "@patchbay/api/kubernetes";
import { parseIp } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import type { Definitions } from "../node/definitions.ts";
import { hasOwnAddressing } from "../nics/addresses/retained-addresses.ts";
import { readText } from "../nics/definition/needs.ts";
import { buildPodInterfaceName } from "../nics/names.ts";
import { sha256Hex } from "../nics/sha256.ts";
import { findByName, ifacesOf, networkNameOf, networksOf } from "../nics/nics.ts";
import { addressNotClaimed, requestNotClaimed } from "../reasons/messages.ts";
import {
  buildPrimaryRequest,
  findPrimaryNetwork,
  PRIMARY_POD_INTERFACE,
  readPrimaryClaim,
} from "./primary-network.ts";
import { toLabelValue } from "./spec/guest-names.ts";

/** Member of a CNI configuration with which OVN-Kubernetes offers persistent addresses. */
const PERSISTENT_IPS = "allowPersistentIPs";

export interface IpamClaimFacts {
  readonly claims: ReadonlyMap<string, IpamClaim>;
  /** Why virt-controller cannot use IPAMClaims. Unset if it can. */
  readonly unavailable?: string;
  /** NAMESPACE/NAME of OVN-Kubernetes' definition of its default network. Unset if this definition does not exist. */
  readonly defaultNetwork?: string;
}

interface PrimaryState {
  /** Primary network that carries the pod network. Unset for secondary networks. */
  readonly primary?: {
    /** NAMESPACE/NAME of its definition. */
    readonly networkName: string;
    /** Whether the launcher references a claim for it. */
    readonly isClaimed: boolean;
  };
}

/** State of a NIC's claim. `missing`: it must be created. `ending`: a new claim can be created after this claim has been deleted. */
export type IpamClaimState = PrimaryState & ClaimState;

type ClaimState =
  | {
      readonly kind: "usable";
      readonly name: string;
      readonly requested?: readonly string[];
      /** Request for addresses and MAC of a primary network. */
      readonly request?: NetworkSelection;
    }
  | { readonly kind: "missing"; readonly claim: IpamClaim }
  | { readonly kind: "ending" }
  | { readonly kind: "unusable"; readonly message: string };

/** States by interface name. Omits interfaces that use no IPAMClaim. */
export type IpamClaimStates = ReadonlyMap<string, IpamClaimState>;

interface PersistentNic {
  readonly iface: Iface;
  readonly network: Network;
  /** NAMESPACE/NAME of the network's definition. */
  readonly networkName: string;
  readonly configName: string;
  /** Requested addresses without prefix length. */
  readonly requested: readonly string[];
  /** Requested addresses with prefix length. Undefined if the network cannot assign them. */
  readonly ipRequests: readonly string[] | undefined;
}

/** If the network offers persistent addresses, returns its name in the CNI configuration. Otherwise returns undefined. */
export function findPersistentNetwork(
  nad: NetworkAttachmentDefinition | undefined,
): string | undefined {
  const text = nad?.spec?.config;
  if (nad === undefined || text?.includes(PERSISTENT_IPS) !== true) return undefined;
  const config = parseJson(text);
  if (!isJsonObject(config)) return undefined;
  const plugins: readonly unknown[] = Array.isArray(config["plugins"]) ? config["plugins"] : [];
  const isPersistent = [config, ...plugins].some(
    (plugin) => isJsonObject(plugin) && plugin[PERSISTENT_IPS] === true,
  );
  return isPersistent ? (readText(config, "name") ?? nad.metadata.name) : undefined;
}

function isOnPrimaryNetwork({ pod }: Network): boolean {
  return pod !== undefined;
}

function findDefinition(
  network: Network,
  namespace: string,
  definitions: Definitions,
): NetworkAttachmentDefinition | undefined {
  return isOnPrimaryNetwork(network)
    ? findPrimaryNetwork(definitions.values(), namespace)
    : definitions.get(networkNameOf(network, namespace) ?? "");
}

/**
 * Adds to each address the prefix length of the first subnet of its IP version. Returns undefined if a version has no subnet, or if a
 * primary network has an IP version without an address. Sources: ipam-extensions VmiInterfaceIPRequests; OVN-Kubernetes
 * validateIPFamilyMatchesNetwork.
 */
function buildIpRequests(
  network: Network,
  nad: NetworkAttachmentDefinition,
  addresses: readonly string[] = [],
): readonly string[] | undefined {
  if (addresses.length === 0) return [];
  const config = parseJson(nad.spec?.config);
  const subnets = isJsonObject(config) ? (readText(config, "subnets") ?? "").split(",") : [];
  const prefixes = subnets.flatMap((subnet) => parseIp(subnet.trim()) ?? []);
  const versions = new Set(prefixes.map(({ version }) => version));
  if (isOnPrimaryNetwork(network) && versions.size !== addresses.length) return undefined;
  const requests = addresses.flatMap((address) => {
    const version = parseIp(address)?.version;
    const prefix = prefixes.find((each) => each.version === version);
    return prefix === undefined ? [] : [`${address}/${String(prefix.length)}`];
  });
  return requests.length === addresses.length ? requests : undefined;
}

interface ClaimingNic {
  readonly iface: Iface;
  readonly network: Network;
}

/** Lists the NICs that may use a claim: those without address settings of their own, on secondary networks or the pod network. */
function listClaimingNics(spec: VmiSpec): readonly ClaimingNic[] {
  return ifacesOf(spec).flatMap((iface) => {
    const network = findByName(networksOf(spec), iface.name);
    if (network === undefined || network.multus?.default === true) return [];
    if (network.multus === undefined && !isOnPrimaryNetwork(network)) return [];
    return isAbsent(iface) || hasOwnAddressing(iface) ? [] : [{ iface, network }];
  });
}

function listPersistentNics(
  { metadata, spec }: VirtualMachineInstance,
  definitions: Definitions,
): readonly PersistentNic[] {
  const { namespace = "" } = metadata;
  return listClaimingNics(spec).flatMap(({ iface, network }) => {
    const nad = findDefinition(network, namespace, definitions);
    const configName = findPersistentNetwork(nad);
    if (nad === undefined || configName === undefined) return [];
    const requested = parseRequestedAddresses(metadata).get(network.name) ?? [];
    const ipRequests = buildIpRequests(network, nad, requested);
    const networkName = `${namespace}/${nad.metadata.name}`;
    return [{ iface, network, networkName, configName, requested, ipRequests }];
  });
}

const SWAP_HASH_LENGTH = 8;

function buildClaimName({ metadata }: KubeObject, networkName: string): string {
  return `${metadata.name}.${networkName}`;
}

/** Returns the name of the new network's claim during a swap. The former network's claim still has the usual name. */
function buildSwapClaimName(owner: KubeObject, networkName: string, configName: string): string {
  const hash = sha256Hex(configName).slice(0, SWAP_HASH_LENGTH);
  return `${buildClaimName(owner, networkName)}.${hash}`;
}

export interface IpamClaimNames {
  readonly usual: string;
  /** Name after a network swap. */
  readonly swap: string;
  /** Name in the CNI configuration of the NIC's network. */
  readonly configName: string;
}

function buildClaimNames(
  owner: KubeObject,
  { network, configName }: PersistentNic,
): IpamClaimNames {
  const usual = buildClaimName(owner, network.name);
  return { usual, swap: buildSwapClaimName(owner, network.name, configName), configName };
}

export function listIpamClaimNames(
  vmi: VirtualMachineInstance,
  definitions: Definitions,
): readonly IpamClaimNames[] {
  return listPersistentNics(vmi, definitions).map((nic) => buildClaimNames(vmi, nic));
}

function buildOwner(vmi: VirtualMachineInstance) {
  const controller = findController(vmi);
  const { apiVersion, kind, metadata } = vmi;
  const owner =
    controller?.kind === VIRTUAL_MACHINES.kind
      ? controller
      : { apiVersion, kind, name: metadata.name, uid: metadata.uid ?? "" };
  return { ...owner, controller: true, blockOwnerDeletion: true };
}

function buildIpamClaim(
  vmi: VirtualMachineInstance,
  { network, configName, ipRequests = [] }: PersistentNic,
  name: string,
): IpamClaim {
  return {
    apiVersion: apiVersionOf(IPAM_CLAIMS),
    kind: IPAM_CLAIMS.kind,
    metadata: {
      name,
      namespace: vmi.metadata.namespace ?? "",
      labels: { [names.IPAM_CLAIM_VM_LABEL]: toLabelValue(vmi.metadata.name) },
      finalizers: [names.IPAM_CLAIM_FINALIZER],
      ownerReferences: [buildOwner(vmi)],
    },
    spec: {
      network: configName,
      interface: isOnPrimaryNetwork(network)
        ? PRIMARY_POD_INTERFACE
        : buildPodInterfaceName(network),
      ...(ipRequests.length > 0 && { ipRequests: [...ipRequests] }),
    },
  };
}

const OWNER_KINDS: readonly string[] = [VIRTUAL_MACHINES.kind, VIRTUAL_MACHINE_INSTANCES.kind];

/** Returns NAMESPACE/NAME of the VM or VMI that owns the claim; undefined if neither does. */
export function findIpamClaimOwner(claim: IpamClaim): string | undefined {
  const owner = findController(claim);
  if (owner === undefined || !OWNER_KINDS.includes(owner.kind)) return undefined;
  return `${claim.metadata.namespace ?? ""}/${owner.name}`;
}

interface ClaimUsers {
  readonly vmi: VirtualMachineInstance | undefined;
  readonly pod: Pod | undefined;
}

function listElements(pod: Pod | undefined): readonly NetworkSelection[] {
  const annotation = parseNetworks(pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return annotation.ok ? annotation.elements : [];
}

function hasNameOf({ metadata, spec }: IpamClaim, owner: KubeObject, networkName: string): boolean {
  return [
    buildClaimName(owner, networkName),
    buildSwapClaimName(owner, networkName, spec.network),
  ].includes(metadata.name);
}

/**
 * Checks whether a NIC has, or could still have, addresses of the claim. An attached NIC's network element names its claim. An attachment
 * without an element is being detached: its claim is unknown, so it counts for every claim of its interface.
 */
function isInUse(claim: IpamClaim, { vmi, pod }: ClaimUsers): boolean {
  if (vmi === undefined) return false;
  const elements = listElements(pod);
  const attachments = vmi.status?.attachments ?? [];
  return (
    readPrimaryClaim(pod)?.name === claim.metadata.name ||
    elements.some((element) => element["ipam-claim-reference"] === claim.metadata.name) ||
    attachments.some(
      ({ name, podInterfaceName }) =>
        hasNameOf(claim, vmi, name) &&
        !elements.some((element) => element.interface === podInterfaceName),
    )
  );
}

function describeOther(claim: IpamClaim, nic: PersistentNic): string {
  const { name, namespace = "" } = claim.metadata;
  if (claim.spec.network === nic.configName)
    return `IPAMClaim ${namespace}/${name} does not request the addresses of annotation ${names.REQUESTED_ADDRESSES_ANNOTATION}`;
  return `IPAMClaim ${namespace}/${name} is for network ${claim.spec.network}, and the interface is on ${nic.configName}`;
}

/**
 * Returns whether the NIC can use the claim for these addresses: the claim requests exactly them, or it has no addresses yet, or it was
 * assigned all of them. On secondary networks, a claim that requests other addresses never matches. A claim may lack requests, because
 * ipam-extensions creates claims without them, and the API server drops `ipRequests` if the claims' definition lacks the field.
 */
function isForAddresses(
  { spec, status }: IpamClaim,
  network: Network,
  ipRequests: readonly string[] | undefined,
): boolean {
  if (isEqual(spec.ipRequests ?? [], ipRequests)) return true;
  if (spec.ipRequests !== undefined && !isOnPrimaryNetwork(network)) return false;
  const assigned = normalizeAddresses(status?.ips);
  const requested = normalizeAddresses(ipRequests);
  return assigned.length === 0 || requested.every((address) => assigned.includes(address));
}

function resolveExisting(
  claim: IpamClaim,
  nic: PersistentNic,
  users: ClaimUsers & { readonly vmi: VirtualMachineInstance },
): ClaimState {
  const { name, namespace = "", deletionTimestamp } = claim.metadata;
  const owner = findController(claim);
  if (owner !== undefined && owner.uid !== buildOwner(users.vmi).uid) {
    // The garbage collector deletes a claim of an earlier VM with the same name. Then the new claim can be created.
    const isPredecessor =
      OWNER_KINDS.includes(owner.kind) && owner.name === users.vmi.metadata.name;
    if (isPredecessor) return { kind: "missing", claim: buildIpamClaim(users.vmi, nic, name) };
    const message = `IPAMClaim ${namespace}/${name} belongs to ${owner.kind} ${owner.name}`;
    return { kind: "unusable", message };
  }
  const isReplaceable = owner !== undefined && !isInUse(claim, users);
  if (deletionTimestamp !== undefined && isReplaceable) return { kind: "ending" };
  // A claim without an owner was created by a user. Such a claim is usable even if it requests other addresses than the annotation.
  const isMatching = owner === undefined || isForAddresses(claim, nic.network, nic.ipRequests);
  const { requested } = nic;
  if (claim.spec.network === nic.configName && isMatching)
    return { kind: "usable", name, ...(requested.length > 0 && { requested }) };
  return isReplaceable
    ? { kind: "ending" }
    : { kind: "unusable", message: describeOther(claim, nic) };
}

/** Checks whether a NIC still uses the VM's claim on another network, as during a network swap. */
function isOfFormerNetwork(
  claim: IpamClaim,
  { configName }: PersistentNic,
  users: ClaimUsers & { readonly vmi: VirtualMachineInstance },
): boolean {
  const isOwn = findController(claim)?.uid === buildOwner(users.vmi).uid;
  return isOwn && claim.spec.network !== configName && isInUse(claim, users);
}

function withRequest(
  state: ClaimState,
  { iface, network, ipRequests: ips = [] }: PersistentNic,
  { defaultNetwork }: IpamClaimFacts,
): ClaimState {
  if (state.kind !== "usable" || !isOnPrimaryNetwork(network)) return state;
  const request = buildPrimaryRequest(iface, { claimName: state.name, ips, defaultNetwork });
  return { ...state, ...(request !== undefined && { request }) };
}

/** Describes why the network cannot assign the requested addresses. Undefined if it can. */
function findRequestProblem(
  { network, configName, requested, ipRequests }: PersistentNic,
  { defaultNetwork }: IpamClaimFacts,
): string | undefined {
  const addresses = requested.join(", ");
  const isPrimary = isOnPrimaryNetwork(network);
  if (ipRequests === undefined) {
    return isPrimary
      ? `network ${configName} assigns one address of each of its IP versions, and ${addresses} is requested`
      : `network ${configName} has no subnet for ${addresses}`;
  }
  return isPrimary && requested.length > 0 && defaultNetwork === undefined
    ? `${addresses} cannot be requested from network ${configName}, because the definition that virt-controller's --ovn-default-network names does not exist`
    : undefined;
}

/** Resolves a NIC's claim. Prefers a claim that an earlier network swap created, because this claim has the NIC's addresses. */
function resolveOne(
  nic: PersistentNic,
  users: ClaimUsers & { readonly vmi: VirtualMachineInstance },
  facts: IpamClaimFacts,
): ClaimState {
  const { claims, unavailable } = facts;
  const { usual, swap } = buildClaimNames(users.vmi, nic);
  const usualClaim = claims.get(usual);
  const needsSwapName =
    claims.has(swap) || (usualClaim !== undefined && isOfFormerNetwork(usualClaim, nic, users));
  const name = needsSwapName ? swap : usual;
  const claim = claims.get(name);
  if (claim !== undefined) return withRequest(resolveExisting(claim, nic, users), nic, facts);
  return unavailable === undefined
    ? { kind: "missing", claim: buildIpamClaim(users.vmi, nic, name) }
    : { kind: "unusable", message: unavailable };
}

/** Returns the states of the claims that the VMI's networks require. `facts` is undefined if no network requires a claim. */
export function resolveIpamClaims(
  users: ClaimUsers & { readonly vmi: VirtualMachineInstance },
  definitions: Definitions,
  facts: IpamClaimFacts | undefined,
): IpamClaimStates {
  if (facts === undefined) return new Map();
  return new Map(
    listPersistentNics(users.vmi, definitions).map((nic): [string, IpamClaimState] => {
      const message = findRequestProblem(nic, facts);
      const state: ClaimState =
        message === undefined ? resolveOne(nic, users, facts) : { kind: "unusable", message };
      if (!isOnPrimaryNetwork(nic.network)) return [nic.network.name, state];
      const isClaimed = readPrimaryClaim(users.pod) !== undefined;
      const primary = { networkName: nic.networkName, isClaimed };
      return [nic.network.name, { ...state, primary }];
    }),
  );
}

/** Checks whether CNI must not attach the NIC yet. The claim must exist before, because a NIC that is already attached gets no claim. */
export function isAwaited(state: IpamClaimState | undefined): boolean {
  return state?.kind === "missing" || state?.kind === "ending";
}

/** Returns the claims of a source pod's NICs, which the target pod then uses too. Of an interface's attachments, the first decides. */
export function findIpamClaimsInUse(
  attachments: readonly Attachment[],
  elements: readonly NetworkSelection[],
): IpamClaimStates {
  return new Map(
    attachments
      .toReversed()
      .flatMap(({ name, podInterfaceName }): readonly [string, IpamClaimState][] => {
        const element = elements.find((each) => each.interface === podInterfaceName);
        const claimName = element?.["ipam-claim-reference"];
        return claimName === undefined ? [] : [[name, { kind: "usable", name: claimName }]];
      }),
  );
}

function findUnmetRequest(
  claim: IpamClaimState,
  networkName: string,
  { ips = [] }: Attachment,
): Pick<Attachment, "reason" | "message"> {
  const requested = claim.kind === "usable" ? normalizeAddresses(claim.requested ?? []) : [];
  const assigned = normalizeAddresses(ips);
  return requested.every((address) => assigned.includes(address))
    ? {}
    : requestNotClaimed(networkName, requested, assigned);
}

/** Returns a warning if an attached NIC lacks the claim that its network supports, or if its addresses are not the requested ones. */
export function findClaimWarning(
  attachment: Attachment,
  states: IpamClaimStates | undefined,
  elements: readonly NetworkSelection[],
): Pick<Attachment, "reason" | "message"> {
  const { name, state, podInterfaceName } = attachment;
  const claim = states?.get(name);
  if (claim === undefined || state !== "Attached") return {};
  const networkName = claim.primary?.networkName ?? attachment.networkName ?? "";
  const element = elements.find((each) => each.interface === podInterfaceName);
  const isClaimed = claim.primary?.isClaimed ?? element?.["ipam-claim-reference"] !== undefined;
  if (isClaimed) return findUnmetRequest(claim, networkName, attachment);
  const cause =
    claim.kind === "unusable" ? claim.message : "the NIC was attached before its IPAMClaim existed";
  return addressNotClaimed(networkName, cause);
}

export type IpamClaimAction =
  | { readonly kind: "deleteIpamClaim"; readonly claim: IpamClaim }
  | { readonly kind: "releaseIpamClaim"; readonly claim: IpamClaim };

export interface IpamClaimOwners extends ClaimUsers {
  readonly vm: VirtualMachine | undefined;
  readonly definitions: Definitions;
}

interface ClaimOwner {
  readonly owner: KubeObject;
  readonly nics: VmiSpec;
  readonly requested: RequestedAddresses;
  readonly definitions: Definitions;
}

/**
 * Checks whether the NIC of the claim exists, is on the claim's network, and requests the same addresses as the claim. If the network's
 * definition is missing, assumes that the network and the requests are unchanged.
 */
function isWanted(claim: IpamClaim, { owner, nics, requested, definitions }: ClaimOwner): boolean {
  const { metadata, spec } = claim;
  const nic = listClaimingNics(nics).find(({ network }) => hasNameOf(claim, owner, network.name));
  if (nic === undefined) return false;
  const { network } = nic;
  const nad = findDefinition(network, metadata.namespace ?? "", definitions);
  if (nad === undefined) return true;
  const ipRequests = buildIpRequests(network, nad, requested.get(network.name));
  return findPersistentNetwork(nad) === spec.network && isForAddresses(claim, network, ipRequests);
}

/** Checks whether the owner exists, but none of its NICs needs the claim. The garbage collector deletes the claims of deleted owners. */
function isObsolete(claim: IpamClaim, { vm, vmi, definitions }: IpamClaimOwners): boolean {
  const uid = findController(claim)?.uid;
  if (uid === undefined || (uid !== vm?.metadata.uid && uid !== vmi?.metadata.uid)) return false;
  const templates = [
    ...(vm === undefined ? [] : [{ owner: vm, ...vm.spec.template }]),
    ...(vmi === undefined ? [] : [{ owner: vmi, metadata: vmi.metadata, spec: vmi.spec }]),
  ];
  return !templates.some(({ owner, metadata, spec: nics }) => {
    const requested = parseRequestedAddresses(metadata);
    return isWanted(claim, { owner, nics, requested, definitions });
  });
}

/** Plans deletions of claims that no NIC needs, and the removal of Patchbay's finalizer from deleted claims that no NIC uses. */
export function planIpamClaims(
  claims: readonly IpamClaim[],
  owners: IpamClaimOwners,
): readonly IpamClaimAction[] {
  return claims.flatMap((claim): readonly IpamClaimAction[] => {
    const { finalizers = [], deletionTimestamp } = claim.metadata;
    if (!finalizers.includes(names.IPAM_CLAIM_FINALIZER) || isInUse(claim, owners)) return [];
    if (deletionTimestamp !== undefined) return [{ kind: "releaseIpamClaim", claim }];
    return isObsolete(claim, owners) ? [{ kind: "deleteIpamClaim", claim }] : [];
  });
}

function explainUnused(spec: VmiSpec, name: string): string | undefined {
  const iface = findByName(ifacesOf(spec), name);
  const network = findByName(networksOf(spec), name);
  if (iface === undefined || network === undefined) return `there is no interface "${name}"`;
  if (isOnPrimaryNetwork(network))
    return `interface "${name}" is on the pod network, which assigns them only if the namespace has a primary network of OVN-Kubernetes`;
  if (isDefaultNetwork(network)) return `interface "${name}" is on the pods' default network`;
  return hasOwnAddressing(iface)
    ? `interface "${name}" has addresses in the specification`
    : undefined;
}

/** Returns a warning for each interface whose requested addresses have no effect. `base` is the field path of `metadata`. */
export function findUnusedAddresses(
  base: string,
  {
    metadata,
    spec,
  }: { readonly metadata?: Parameters<typeof parseRequestedAddresses>[0]; readonly spec: VmiSpec },
): readonly string[] {
  const field = `${base}.annotations[${names.REQUESTED_ADDRESSES_ANNOTATION}]`;
  return [...parseRequestedAddresses(metadata).keys()].flatMap((name) => {
    const cause = explainUnused(spec, name);
    return cause === undefined ? [] : [`${field} (${cause})`];
  });
}
