// SPDX-License-Identifier: Apache-2.0
// Facts of each interface, collected from all observers, and the phase that they mean. No other code decides the phase.
import {
  type BindingRegistry,
  type ClusterSecurity,
  type VirtualMachineInstance,
  isAbsent,
  type Attachment,
  type HotplugType,
  type Iface,
  type IfacePhase,
} from "@patchbay/api";
import { printPciAddress, type NicFacts } from "@patchbay/domain";
import type { RememberedAddresses } from "./addresses/lease.ts";
import { findByName, ifacesOf, networksOf, networkNameOf } from "./nics.ts";
import type { GuestView } from "../guest/agent-view.ts";
import {
  type DeviceTaps,
  collectBindingFacts,
  collectLinkFacts,
  type KernelLink,
} from "./links/link-facts.ts";
import type { DeviceFacts, GuestNicFacts, IfaceFacts, LinkFacts, SwapFacts } from "./facts.ts";
import type { ObservedSocket } from "./links/vhost-socket.ts";
import { ownTapName, nameOfAlias, namesOf, podInterfaceOfTap } from "./names.ts";
import { findBindingModule, afterSwap, type WiredIface } from "./node-plan.ts";
import { isOnNetwork, choosePodNic } from "./pod-nic.ts";

interface CarryingNic {
  readonly podInterfaceName: string;
  readonly attachment?: Attachment;
}

interface Carrier extends CarryingNic {
  readonly swap?: CarryingNic;
  readonly leftovers: readonly string[];
}

interface CarrierSources {
  readonly vmi: VirtualMachineInstance;
  readonly hasDevice: boolean;
  readonly deviceTap: string | undefined;
  readonly bridgeOfTap: (podInterfaceName: string) => string | undefined;
  readonly hasLink: (name: string) => boolean;
}

interface KnownNics {
  readonly name: string;
  readonly attachments: readonly Attachment[];
  /** NAMESPACE/NAME of the network in the spec. Undefined for the pod's own network, or if the interface is not wanted. */
  readonly networkName: string | undefined;
  readonly wanted: string | undefined;
  readonly reported: readonly string[];
  readonly all: readonly string[];
}

function findDeclaredNetwork(
  name: string,
  attachments: readonly Attachment[],
  vmi: VirtualMachineInstance,
): Pick<KnownNics, "networkName" | "wanted"> {
  const { namespace = "" } = vmi.metadata;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (network === undefined) return { networkName: undefined, wanted: undefined };
  const isWanted = iface !== undefined && !isAbsent(iface);
  return {
    networkName: isWanted ? networkNameOf(network, namespace) : undefined,
    wanted: choosePodNic(network, { namespace, attachments, nics: [] }),
  };
}

function collectKnownNics(name: string, vmi: VirtualMachineInstance): KnownNics {
  const attachments = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const { podInterfaceName, otherPodInterfaceNames = [] } =
    findByName(vmi.status?.interfaces, name) ?? {};
  const reported = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  const declared = findDeclaredNetwork(name, attachments, vmi);
  const nics = attachments.map((entry) => entry.podInterfaceName);
  const all = [...new Set([...nics, ...reported, declared.wanted ?? []].flat())];
  return { name, attachments, reported, all, ...declared };
}

/** Returns the pod NIC from the first source that has one. Existing links retain the name with which they were created. */
function lastUsedNic(
  { attachments, reported, wanted }: KnownNics,
  deviceTap: string | undefined,
): string {
  const known = attachments[0]?.podInterfaceName ?? reported[0] ?? wanted;
  if (known !== undefined) return known;
  return deviceTap === undefined ? "" : podInterfaceOfTap(deviceTap);
}

/** Returns the current pod NIC: the one on whose bridge the device's tap is, or without a device the one for the spec. */
function findCurrentNic(known: KnownNics, sources: CarrierSources): string {
  const { name, attachments, networkName, wanted } = known;
  if (!sources.hasDevice) {
    const mayChoose = networkName !== undefined && attachments.length > 0;
    return (mayChoose ? wanted : undefined) ?? lastUsedNic(known, sources.deviceTap);
  }
  const isCarrying = (nic: string): boolean =>
    sources.bridgeOfTap(nic) === namesOf(name, nic).bridgeName;
  const reported = known.reported
    .slice(0, 1)
    .filter((nic) => known.attachments.some(({ podInterfaceName }) => podInterfaceName === nic));
  return known.all.find(isCarrying) ?? reported[0] ?? lastUsedNic(known, sources.deviceTap);
}

function toCarryingNic(podInterfaceName: string, { attachments }: KnownNics): CarryingNic {
  const attachment = attachments.find((entry) => entry.podInterfaceName === podInterfaceName);
  return { podInterfaceName, ...(attachment === undefined ? {} : { attachment }) };
}

function findSwap(
  current: CarryingNic,
  known: KnownNics,
  hasDevice: boolean,
): CarryingNic | undefined {
  const { networkName, wanted } = known;
  if (!hasDevice || networkName === undefined || wanted === undefined) return undefined;
  if (wanted === current.podInterfaceName) return undefined;
  const { attachment } = current;
  return attachment !== undefined && isOnNetwork(attachment, networkName)
    ? undefined
    : toCarryingNic(wanted, known);
}

function findCarrier(name: string, sources: CarrierSources): Carrier {
  const known = collectKnownNics(name, sources.vmi);
  const current = toCarryingNic(findCurrentNic(known, sources), known);
  const swap = findSwap(current, known, sources.hasDevice);
  const used = [current.podInterfaceName, swap?.podInterfaceName];
  const leftovers = known.all.filter(
    (nic) => !used.includes(nic) && sources.hasLink(namesOf(name, nic).bridgeName),
  );
  return { ...current, ...(swap === undefined ? {} : { swap }), leftovers };
}

export interface IfaceSources {
  readonly vmi: VirtualMachineInstance;
  readonly links: readonly KernelLink[];
  /** Sockets by pod NIC. Unset if no interface uses vhost-user. */
  readonly sockets?: ReadonlyMap<string, ObservedSocket>;
  readonly isEmulated?: boolean;
  readonly nics: readonly NicFacts[];
  readonly guest: GuestView;
  readonly bindings: BindingRegistry;
  readonly security?: ClusterSecurity;
  readonly deviceTaps?: DeviceTaps;
  readonly remembered?: readonly RememberedAddresses[];
  /** Whether the guest runs. Unset or false if it does not, or if this was not observed. */
  readonly isRunning?: boolean;
  /** UID of the pod on this node that will receive the migrating guest. Unset for a guest that is not incoming. */
  readonly awaitedIn?: string;
  /** Whether neither links nor domain can be observed. */
  readonly isBlind?: true;
}

/** Returns the recorded addresses of the NIC. Ignores those of an earlier NIC with the same name. */
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
  const nic = sources.nics.find(({ alias }) => nameOfAlias(alias) === name);
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
    ...(nic.socketPath === undefined ? {} : { speaksVhostUser: true }),
    ...(guest === undefined ? {} : { guest }),
  };
}

/** Returns the names of all known interfaces: first those in the spec in its order, then the rest sorted by name. */
function allNames({ vmi, nics }: IfaceSources): readonly string[] {
  const declared = ifacesOf(vmi.spec).map(({ name }) => name);
  const others = [
    ...(vmi.status?.attachments ?? []).map(({ name }) => name),
    ...(vmi.status?.interfaces ?? []).flatMap(({ name }) => name ?? []),
    ...nics.flatMap(({ alias }) => nameOfAlias(alias) ?? []),
  ].sort();
  return [...new Set([...declared, ...others])];
}

/** Finds the pod NIC that carries the interface. Uses the status for facts that cannot be observed. */
function findObservedCarrier(name: string, sources: IfaceSources): Carrier {
  const { vmi, links, nics, isBlind = false } = sources;
  const nic = nics.find(({ alias }) => nameOfAlias(alias) === name);
  const reported = findByName(vmi.status?.interfaces, name);
  const others = reported?.otherPodInterfaceNames ?? [];
  const observed = {
    hasDevice: isBlind ? reported?.queueCount !== undefined : nic !== undefined,
    hasLink: (link: string): boolean =>
      isBlind
        ? others.some((other) => namesOf(name, other).bridgeName === link)
        : findByName(links, link) !== undefined,
  };
  const bridgeOfTap = (podInterfaceName: string): string | undefined =>
    findByName(links, ownTapName(name, podInterfaceName))?.master;
  return findCarrier(name, { vmi, deviceTap: nic?.tapName, bridgeOfTap, ...observed });
}

type CollectedFacts = Omit<IfaceFacts, "links" | "swap">;

function collectSwapFacts(
  known: CollectedFacts,
  { swap }: Carrier,
  observation: {
    readonly linksOf: (iface: WiredIface) => LinkFacts;
    readonly sources: IfaceSources;
  },
): Pick<IfaceFacts, "swap"> {
  if (swap === undefined || !findBindingModule(known).live.network) return {};
  const remembered = findRemembered(swap.podInterfaceName, observation.sources);
  const swapNic = { ...swap, ...(remembered === undefined ? {} : { remembered }) };
  return {
    swap: { ...swapNic, links: observation.linksOf(afterSwap({ ...known, swap: swapNic })) },
  };
}

function guestFacts(
  { kind }: IfaceFacts["binding"],
  { isRunning = false, awaitedIn }: IfaceSources,
): Pick<IfaceFacts, "madeByHook" | "awaitedIn"> {
  return {
    ...(kind === "hook" && isRunning && { madeByHook: true }),
    ...(awaitedIn !== undefined && { awaitedIn }),
  };
}

function collectFacts(name: string, sources: IfaceSources): IfaceFacts {
  const { vmi } = sources;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  const carrier = findObservedCarrier(name, sources);
  const { podInterfaceName, attachment, leftovers } = carrier;
  const device = findDeviceFacts(name, sources);
  const reported = findByName(vmi.status?.interfaces, name);
  const declared = {
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
  };
  const named = { name, podInterfaceName };
  const remembered = findRemembered(named.podInterfaceName, sources);
  const binding = collectBindingFacts({ ...named, device }, declared, sources);
  const known = {
    ...named,
    ...declared,
    binding,
    ...guestFacts(binding, sources),
    ...(sources.security === undefined ? {} : { security: sources.security }),
    ...(attachment === undefined ? {} : { attachment }),
    ...(device === undefined ? {} : { device }),
    ...(reported === undefined ? {} : { reported }),
    ...(remembered === undefined ? {} : { remembered }),
    ...(leftovers.length === 0 ? {} : { leftovers }),
  };
  const linksOf = (wired: WiredIface): LinkFacts => collectLinkFacts(wired, sources);
  return {
    ...known,
    links: linksOf(known),
    ...collectSwapFacts(known, carrier, { linksOf, sources }),
  };
}

/** Returns the facts without `wired`, which `withWired` adds from the pod network's observation. */
export function collectIfaceFacts(sources: IfaceSources): readonly IfaceFacts[] {
  return allNames(sources).map((name) => collectFacts(name, sources));
}

interface PhaseFacts {
  readonly iface?: Iface;
  readonly attachment?: Attachment;
  readonly links: Pick<LinkFacts, "tap" | "bridge" | "wired" | "tapOpen">;
  readonly device?: DeviceFacts;
  readonly madeByHook?: true;
  readonly swap?: Pick<SwapFacts, "attachment"> & {
    readonly links: Pick<LinkFacts, "podInterface">;
  };
  readonly leftovers?: readonly string[];
}

export function isWanted(facts: Pick<PhaseFacts, "iface">): boolean {
  return facts.iface !== undefined && !isAbsent(facts.iface);
}

function unplugPhase(facts: PhaseFacts): IfacePhase | undefined {
  if (facts.device !== undefined) return "Detaching";
  const { tap, bridge } = facts.links;
  if (tap || bridge || (facts.leftovers ?? []).length > 0) return "Unwiring";
  return facts.attachment === undefined ? undefined : "PodDetaching";
}

/** Returns the phase of a pending network swap of a working device. A broken pod NIC does not block the swap. */
function swapPhase({ swap, links, device }: PhaseFacts): IfacePhase | undefined {
  if (swap === undefined || device === undefined || !links.tapOpen) return undefined;
  if (swap.attachment?.state === "Attached" && swap.links.podInterface) return "Switching";
  return links.wired ? "PodSwapping" : undefined;
}

function plugPhase(facts: PhaseFacts): IfacePhase {
  const { wired, tapOpen } = facts.links;
  const swap = swapPhase(facts);
  if (swap !== undefined) return swap;
  if (facts.device !== undefined && wired && tapOpen) return "Ready";
  if (facts.attachment === undefined) return "Pending";
  if (facts.madeByHook === true && wired) return "Ready";
  if (facts.attachment.state !== "Attached") return "PodAttaching";
  return wired ? "Attaching" : "Wiring";
}

/**
 * Returns the phase of an interface; undefined if nothing of it exists. An attachment that is being removed is not reused:
 * the unplug is completed first, even if the interface is requested again.
 */
export function decidePhase(facts: PhaseFacts): IfacePhase | undefined {
  const removing = facts.attachment?.state === "Removing";
  return isWanted(facts) && !removing ? plugPhase(facts) : unplugPhase(facts);
}

/**
 * Whether the guest must release the device: the interface is not wanted, or its tap was recreated, which QEMU does not
 * open again by itself.
 */
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
