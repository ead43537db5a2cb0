// SPDX-License-Identifier: Apache-2.0
// Collects the facts of each interface from all observations, and decides the interface's phase.
import {
  type BindingRegistry,
  type ClusterSecurity,
  type VirtualMachineInstance,
  isAbsent,
  isDefaultNetwork,
  type Attachment,
  type HotplugType,
  type Iface,
  type IfacePhase,
  type Network,
} from "@patchbay/api";
import { printPciAddress, type NicFacts } from "@patchbay/domain";
import type { RememberedAddresses } from "./addresses/lease.ts";
import { findByName, ifacesOf, networksOf, networkNameOf } from "./nics.ts";
import type { NicPolicy } from "../policies/index.ts";
import type { GuestView } from "../guest/agent-view.ts";
import type { LearnedOnNic } from "../guest/learned-addresses.ts";
import {
  type DeviceTaps,
  collectBindingFacts,
  collectLinkFacts,
  type KernelLink,
} from "./links/link-facts.ts";
import type { DeviceFacts, GuestNicFacts, IfaceFacts, LinkFacts, SwapFacts } from "./facts.ts";
import type { ObservedSocket } from "./links/vhost-socket.ts";
import { buildTapName, parseAlias, buildIfaceNames, parseTapName } from "./names.ts";
import { findBindingModule, toSwappedFacts, type WiredIface } from "./node-plan.ts";
import { isOnNetwork, choosePodNic } from "./pod-nic.ts";

interface ChosenNic {
  readonly podInterfaceName: string;
  readonly attachment?: Attachment;
}

interface ChosenNics extends ChosenNic {
  readonly swap?: ChosenNic;
  readonly leftovers: readonly string[];
}

interface NicSources {
  readonly vmi: VirtualMachineInstance;
  readonly hasDevice: boolean;
  readonly deviceTap: string | undefined;
  readonly bridgeOfTap: (podInterfaceName: string) => string | undefined;
  readonly hasLink: (name: string) => boolean;
}

interface KnownNics {
  readonly name: string;
  readonly attachments: readonly Attachment[];
  /** NAMESPACE/NAME of the network in the spec. Undefined for the pod network, or if the interface is deleted or `absent`. */
  readonly networkName: string | undefined;
  readonly wantedNic: string | undefined;
  readonly reportedNics: readonly string[];
  readonly allNics: readonly string[];
}

function findDeclaredNetwork(
  name: string,
  attachments: readonly Attachment[],
  vmi: VirtualMachineInstance,
): Pick<KnownNics, "networkName" | "wantedNic"> {
  const { namespace = "" } = vmi.metadata;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (network === undefined) return { networkName: undefined, wantedNic: undefined };
  const isWanted = iface !== undefined && !isAbsent(iface);
  return {
    networkName: isWanted ? networkNameOf(network, namespace) : undefined,
    wantedNic: choosePodNic(network, { namespace, attachments, nics: [] }),
  };
}

function collectKnownNics(name: string, vmi: VirtualMachineInstance): KnownNics {
  const attachments = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const { podInterfaceName, otherPodInterfaceNames = [] } =
    findByName(vmi.status?.interfaces, name) ?? {};
  const reportedNics = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  const declared = findDeclaredNetwork(name, attachments, vmi);
  const nics = attachments.map((entry) => entry.podInterfaceName);
  const allNics = [...new Set([...nics, ...reportedNics, declared.wantedNic ?? []].flat())];
  return { name, attachments, reportedNics, allNics, ...declared };
}

/** Searches the attachments, the status, the spec and the tap's name for the pod NIC, in this order. Returns "" if unknown. */
function findLastUsedNic(
  { attachments, reportedNics, wantedNic }: KnownNics,
  deviceTap: string | undefined,
): string {
  const known = attachments[0]?.podInterfaceName ?? reportedNics[0] ?? wantedNic;
  if (known !== undefined) return known;
  return deviceTap === undefined ? "" : parseTapName(deviceTap);
}

/**
 * Returns the current pod NIC. With a device, this is the NIC whose bridge contains the device's tap. Without a device, it is the NIC on
 * the spec's network. If there is no such NIC, returns the result of {@link findLastUsedNic}.
 */
function findCurrentNic(known: KnownNics, sources: NicSources): string {
  const { name, attachments, networkName, wantedNic } = known;
  if (!sources.hasDevice) {
    const mayChoose = networkName !== undefined && attachments.length > 0;
    return (mayChoose ? wantedNic : undefined) ?? findLastUsedNic(known, sources.deviceTap);
  }
  const hasDeviceTap = (nic: string): boolean =>
    sources.bridgeOfTap(nic) === buildIfaceNames(name, nic).bridgeName;
  const reported = known.reportedNics
    .slice(0, 1)
    .filter((nic) => known.attachments.some(({ podInterfaceName }) => podInterfaceName === nic));
  return (
    known.allNics.find(hasDeviceTap) ?? reported[0] ?? findLastUsedNic(known, sources.deviceTap)
  );
}

function toChosenNic(podInterfaceName: string, { attachments }: KnownNics): ChosenNic {
  const attachment = attachments.find((entry) => entry.podInterfaceName === podInterfaceName);
  return { podInterfaceName, ...(attachment === undefined ? {} : { attachment }) };
}

function findSwap(current: ChosenNic, known: KnownNics, hasDevice: boolean): ChosenNic | undefined {
  const { networkName, wantedNic } = known;
  if (!hasDevice || networkName === undefined || wantedNic === undefined) return undefined;
  if (wantedNic === current.podInterfaceName) return undefined;
  const { attachment } = current;
  return attachment !== undefined && isOnNetwork(attachment, networkName)
    ? undefined
    : toChosenNic(wantedNic, known);
}

function chooseNics(name: string, sources: NicSources): ChosenNics {
  const known = collectKnownNics(name, sources.vmi);
  const current = toChosenNic(findCurrentNic(known, sources), known);
  const swap = findSwap(current, known, sources.hasDevice);
  const usedNics = [current.podInterfaceName, swap?.podInterfaceName];
  const leftovers = known.allNics.filter(
    (nic) => !usedNics.includes(nic) && sources.hasLink(buildIfaceNames(name, nic).bridgeName),
  );
  return { ...current, ...(swap === undefined ? {} : { swap }), leftovers };
}

export interface IfaceSources {
  readonly vmi: VirtualMachineInstance;
  readonly links: readonly KernelLink[];
  /** vhost-user sockets by the pod NIC's name. Unset if no interface uses vhost-user. */
  readonly sockets?: ReadonlyMap<string, ObservedSocket>;
  readonly isEmulated?: boolean;
  readonly nics: readonly NicFacts[];
  readonly guest: GuestView;
  /** Learned addresses by interface. */
  readonly learned?: ReadonlyMap<string, LearnedOnNic>;
  readonly bindings: BindingRegistry;
  readonly security?: ClusterSecurity;
  /** Policies of the pod, which apply to its NIC on the pod network. */
  readonly podPolicy?: NicPolicy;
  /** Policies of NICs on secondary networks, by network as NAMESPACE/NAME. */
  readonly networkPolicies?: Readonly<Record<string, NicPolicy>>;
  readonly deviceTaps?: DeviceTaps;
  readonly remembered?: readonly RememberedAddresses[];
  /** Whether the guest is known to run. */
  readonly isRunning?: boolean;
  /** UID of the pod on this node that will receive the migrating guest. Unset if no guest is migrating to this node. */
  readonly incomingPodUid?: string;
  readonly isMeshed?: true;
  /** Set if the launcher is unreachable, so that the links and the domain cannot be observed. */
  readonly isLauncherUnreachable?: true;
}

/** Returns the recorded addresses of the NIC. Ignores addresses of an earlier NIC with the same name. */
function findRemembered(
  podInterfaceName: string,
  { links, remembered = [] }: IfaceSources,
): RememberedAddresses | undefined {
  const nic = findByName(links, podInterfaceName);
  return remembered.find(
    (row) => row.podInterfaceName === podInterfaceName && row.index === nic?.index,
  );
}

function toGuestFacts({ mac }: NicFacts, { guest }: IfaceSources): GuestNicFacts | undefined {
  const link = guest.nics.get(mac);
  if (link === undefined) return undefined;
  const { name, ipv4, ipv6 } = link;
  return {
    ...(name === undefined ? {} : { name }),
    ...(ipv4.value === undefined ? {} : { ipv4: ipv4.value }),
    ...(ipv6.value === undefined ? {} : { ipv6: ipv6.value }),
  };
}

function findDeviceFacts(name: string, sources: IfaceSources): DeviceFacts | undefined {
  const nic = sources.nics.find(({ alias }) => parseAlias(alias) === name);
  if (nic === undefined) return undefined;
  const guest = toGuestFacts(nic, sources);
  return {
    alias: nic.alias,
    mac: nic.mac,
    linkUp: nic.linkUp,
    ...(nic.hasBootRom === undefined ? {} : { hasBootRom: nic.hasBootRom }),
    queues: nic.queues,
    ...(nic.pciAddress === undefined ? {} : { pciAddress: printPciAddress(nic.pciAddress) }),
    ...(nic.mtu === undefined ? {} : { mtu: nic.mtu }),
    ...(nic.socketPath === undefined ? {} : { isVhostUser: true }),
    ...(guest === undefined ? {} : { guest }),
  };
}

/** Returns the names of all known interfaces: the spec's interfaces in spec order, then all other interfaces sorted by name. */
function listIfaceNames({ vmi, nics }: IfaceSources): readonly string[] {
  const declared = ifacesOf(vmi.spec).map(({ name }) => name);
  const undeclared = [
    ...(vmi.status?.attachments ?? []).map(({ name }) => name),
    ...(vmi.status?.interfaces ?? []).flatMap(({ name }) => name ?? []),
    ...nics.flatMap(({ alias }) => parseAlias(alias) ?? []),
  ].sort();
  return [...new Set([...declared, ...undeclared])];
}

/** Finds the pod NICs of the interface. Uses the status if links and domain cannot be observed. */
function chooseObservedNics(name: string, sources: IfaceSources): ChosenNics {
  const { vmi, links, nics, isLauncherUnreachable = false } = sources;
  const nic = nics.find(({ alias }) => parseAlias(alias) === name);
  const reported = findByName(vmi.status?.interfaces, name);
  const others = reported?.otherPodInterfaceNames ?? [];
  const observed = {
    hasDevice: isLauncherUnreachable ? reported?.queueCount !== undefined : nic !== undefined,
    hasLink: (link: string): boolean =>
      isLauncherUnreachable
        ? others.some((other) => buildIfaceNames(name, other).bridgeName === link)
        : findByName(links, link) !== undefined,
  };
  const bridgeOfTap = (podInterfaceName: string): string | undefined =>
    findByName(links, buildTapName(name, podInterfaceName))?.master;
  return chooseNics(name, { vmi, deviceTap: nic?.tapName, bridgeOfTap, ...observed });
}

type CollectedFacts = Omit<IfaceFacts, "links" | "swap">;

function collectSwapFacts(
  known: CollectedFacts,
  { swap }: ChosenNics,
  observation: {
    readonly linksOf: (iface: WiredIface) => LinkFacts;
    readonly sources: IfaceSources;
  },
): Pick<IfaceFacts, "swap"> {
  if (swap === undefined || !findBindingModule(known).live.canSwapNetwork) return {};
  const remembered = findRemembered(swap.podInterfaceName, observation.sources);
  const swapNic = {
    ...swap,
    ...(remembered === undefined ? {} : { remembered }),
    ...findPolicy(known.network, swap.attachment, observation.sources),
  };
  return {
    swap: { ...swapNic, links: observation.linksOf(toSwappedFacts({ ...known, swap: swapNic })) },
  };
}

function collectGuestFacts(
  { kind }: IfaceFacts["binding"],
  { isRunning = false, incomingPodUid, isMeshed }: IfaceSources,
): Pick<IfaceFacts, "isMadeByHook" | "incomingPodUid" | "isMeshed"> {
  return {
    ...(kind === "hook" && isRunning && { isMadeByHook: true }),
    ...(incomingPodUid !== undefined && { incomingPodUid }),
    ...(isMeshed && { isMeshed }),
  };
}

/** Finds the policy of the network to which the pod NIC is attached, or of the network in the specification if there is no attachment. */
function findPolicy(
  network: Network | undefined,
  attachment: Attachment | undefined,
  { vmi, podPolicy, networkPolicies = {} }: IfaceSources,
): Pick<IfaceFacts, "policy"> {
  const isDefault = network !== undefined && isDefaultNetwork(network);
  const { namespace = "" } = vmi.metadata;
  const name = attachment?.networkName ?? (network && networkNameOf(network, namespace)) ?? "";
  const policy = isDefault ? podPolicy : networkPolicies[name];
  return policy === undefined ? {} : { policy };
}

/** Returns addresses that were learned on the current network. Each network of an interface has another pod NIC. */
function findLearned(
  { name, podInterfaceName }: Pick<IfaceFacts, "name" | "podInterfaceName">,
  { learned }: IfaceSources,
): Pick<IfaceFacts, "learned"> {
  const entry = learned?.get(name);
  const isCurrent = entry?.podInterfaceName === podInterfaceName && entry.addresses.length > 0;
  return isCurrent ? { learned: entry.addresses } : {};
}

function collectFacts(name: string, sources: IfaceSources): IfaceFacts {
  const { vmi } = sources;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  const chosen = chooseObservedNics(name, sources);
  const { podInterfaceName, attachment, leftovers } = chosen;
  const device = findDeviceFacts(name, sources);
  const reported = findByName(vmi.status?.interfaces, name);
  const declared = {
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
  };
  const ifaceNames = { name, podInterfaceName };
  const remembered = findRemembered(ifaceNames.podInterfaceName, sources);
  const binding = collectBindingFacts({ ...ifaceNames, device }, declared, sources);
  const known = {
    ...ifaceNames,
    ...declared,
    binding,
    ...collectGuestFacts(binding, sources),
    ...(sources.security === undefined ? {} : { security: sources.security }),
    ...findPolicy(network, attachment, sources),
    ...findLearned(ifaceNames, sources),
    ...(attachment === undefined ? {} : { attachment }),
    ...(device === undefined ? {} : { device }),
    ...(reported === undefined ? {} : { reported }),
    ...(remembered === undefined ? {} : { remembered }),
    ...(leftovers.length === 0 ? {} : { leftovers }),
  };
  const linksOf = (wiredIface: WiredIface): LinkFacts => collectLinkFacts(wiredIface, sources);
  return {
    ...known,
    links: linksOf(known),
    ...collectSwapFacts(known, chosen, { linksOf, sources }),
  };
}

/** Returns the facts of all interfaces. Callers must set `isWired` with `withWired`. */
export function collectIfaceFacts(sources: IfaceSources): readonly IfaceFacts[] {
  return listIfaceNames(sources).map((name) => collectFacts(name, sources));
}

interface PhaseFacts {
  readonly iface?: Iface;
  readonly attachment?: Attachment;
  readonly links: Pick<LinkFacts, "hasTap" | "hasBridge" | "isWired" | "isTapOpen">;
  readonly device?: DeviceFacts;
  readonly isMadeByHook?: true;
  readonly swap?: Pick<SwapFacts, "attachment"> & {
    readonly links: Pick<LinkFacts, "hasPodInterface">;
  };
  readonly leftovers?: readonly string[];
}

export function isWanted(facts: Pick<PhaseFacts, "iface">): boolean {
  return facts.iface !== undefined && !isAbsent(facts.iface);
}

function decideUnplugPhase(facts: PhaseFacts): IfacePhase | undefined {
  if (facts.device !== undefined) return "Detaching";
  const { hasTap, hasBridge } = facts.links;
  if (hasTap || hasBridge || (facts.leftovers ?? []).length > 0) return "Unwiring";
  return facts.attachment === undefined ? undefined : "PodDetaching";
}

/** Returns the phase of a network swap. Returns undefined if none is pending, no guest uses the tap, or neither pod NIC is usable. */
function decideSwapPhase({ swap, links, device }: PhaseFacts): IfacePhase | undefined {
  if (swap === undefined || device === undefined || !links.isTapOpen) return undefined;
  if (swap.attachment?.state === "Attached" && swap.links.hasPodInterface) return "Switching";
  return links.isWired ? "PodSwapping" : undefined;
}

function decidePlugPhase(facts: PhaseFacts): IfacePhase {
  const { isWired, isTapOpen } = facts.links;
  const swap = decideSwapPhase(facts);
  if (swap !== undefined) return swap;
  if (facts.device !== undefined && isWired && isTapOpen) return "Ready";
  if (facts.attachment === undefined) return "Pending";
  if (facts.isMadeByHook === true && isWired) return "Ready";
  if (facts.attachment.state !== "Attached") return "PodAttaching";
  return isWired ? "Attaching" : "Wiring";
}

/**
 * Returns the phase of an interface. Returns undefined for an unwanted interface that has no attachment, links or device. A
 * running unplug completes first, even if the interface is wanted again.
 */
export function decidePhase(facts: PhaseFacts): IfacePhase | undefined {
  const removing = facts.attachment?.state === "Removing";
  return isWanted(facts) && !removing ? decidePlugPhase(facts) : decideUnplugPhase(facts);
}

/** Returns whether to unplug the device: its interface is unwanted, or its tap was recreated and QEMU still has the deleted tap open. */
export function mustReleaseDevice(facts: PhaseFacts): boolean {
  const phase = decidePhase(facts);
  return facts.device !== undefined && (phase === "Detaching" || phase === "Attaching");
}

const SWAP_PHASES: readonly IfacePhase[] = ["PodSwapping", "Switching"];
const UNPLUG_PHASES: readonly IfacePhase[] = ["Detaching", "Unwiring", "PodDetaching"];

export function toHotplugType(phase: IfacePhase): HotplugType {
  if (UNPLUG_PHASES.includes(phase)) return "Unplug";
  return SWAP_PHASES.includes(phase) ? "Swap" : "Plug";
}
