// SPDX-License-Identifier: Apache-2.0
// Plans an interface's wiring in the pod, its NIC device in the domain, network swaps, vhost-user sockets and unplug requests.
import { type ClusterSecurity, type Attachment, names } from "@patchbay/api";
import { parseVhostUserInfo } from "@patchbay/api/annotations";
import type { GuestLease } from "./addresses/lease.ts";
import { BINDINGS, type BindingModule, type WiringFacts } from "./bindings/binding.ts";
import type {
  ObservedWiring,
  RemovableWiring,
  BridgeWiring,
  PodWiring,
} from "./bindings/pod-wiring.ts";
import { withoutPrefixLength, planSendGuard } from "./bindings/send-guard.ts";
import { findMtu, type IfaceFacts, type LinkFacts } from "./facts.ts";
import { findMac, type MacFacts } from "./mac.ts";
import {
  buildIfaceNames,
  buildLimiterName,
  DEFAULT_POD_INTERFACE,
  parseLinkName,
} from "./names.ts";
import {
  type NicFacts,
  parsePciAddress,
  printNic,
  type NicDefinition,
  type DomainFacts,
} from "@patchbay/domain";
import { planRateLimits } from "./links/rate-limits.ts";
import { buildSocketLinkName } from "./links/socket-link.ts";
import type { NicPlacement } from "./pcie/ports.ts";
import { findModelName } from "./pcie/topology.ts";
import type { SocketReason, VhostSocket } from "./links/vhost-socket.ts";
import { UNPLUG_REQUESTS_MAX } from "../reasons/messages.ts";

export type WiredIface = Pick<
  IfaceFacts,
  | "name"
  | "podInterfaceName"
  | "device"
  | "binding"
  | "network"
  | "remembered"
  | "security"
  | "policy"
  | "incomingPodUid"
  | "isMeshed"
> &
  MacFacts & {
    readonly links?: Partial<Pick<LinkFacts, "mac" | "mtu" | "tapName" | "addresses">>;
  };

/** Returns the binding's module. If the binding is refused, returns the module for the existing links, or bridge if no links exist. */
export function findBindingModule({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? (binding.leftover ?? "bridge") : binding.kind];
}

export function isMadeByHook({ binding }: Pick<IfaceFacts, "binding">): boolean {
  return binding.kind === "hook";
}

/** Collects the facts for a wiring. The device's MAC takes precedence over the spec's, because the running guest uses it. */
function toWiringFacts(facts: WiredIface): WiringFacts {
  const { iface, network, links = {}, remembered, isMeshed } = facts;
  const names = buildIfaceNames(facts.name, facts.podInterfaceName);
  return {
    podInterfaceName: names.podInterfaceName,
    bridgeName: names.bridgeName,
    tapName: links.tapName ?? names.tapName,
    mac: facts.device?.mac ?? findMac(facts),
    mtu: findMtu(facts),
    podAddresses: links.addresses ?? [],
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
    ...(remembered === undefined ? {} : { remembered }),
    ...(isMeshed === undefined ? {} : { isMeshed }),
  };
}

const NO_PORT_SECURITY: ClusterSecurity = { mode: "Off", enforced: false };
/** All IPv6 link-local addresses. A guest behind NAT may use any of them, because only its gateway shares the link. */
const ANY_LINK_LOCAL = "fe80::/10";

/**
 * Returns the addresses that the guest may use: with masquerade, its address behind NAT and all link-local addresses, and otherwise the
 * pod NIC's addresses. Does not read the pod's annotations, because every user who may edit pods can change them.
 */
function listClaimableAddresses(wiring: ObservedWiring, facts: WiredIface): readonly string[] {
  if (wiring.kind === "masquerade") {
    const guests = [wiring.ipv4, wiring.ipv6].flatMap((subnet) => subnet?.guest ?? []);
    return [...guests, ANY_LINK_LOCAL];
  }
  const addresses = facts.remembered?.addresses ?? facts.links?.addresses ?? [];
  return [...new Set(addresses.map(withoutPrefixLength))];
}

/** Returns the interface's wiring with its limits and anti-spoofing rules; undefined if the binding needs no links. */
export function buildWiring(facts: WiredIface): ObservedWiring | undefined {
  const { iface, network, incomingPodUid, policy, security: cluster = NO_PORT_SECURITY } = facts;
  const unguarded = findBindingModule(facts).buildWiring(toWiringFacts(facts));
  const isOwnTap = unguarded !== undefined && unguarded.kind !== "tap";
  const limits = isOwnTap && iface ? planRateLimits(iface, unguarded.mtu) : undefined;
  const wiring = unguarded && {
    ...unguarded,
    ...(incomingPodUid !== undefined && { incomingPodUid }),
    ...(limits !== undefined && { limits }),
    ...(isOwnTap && policy !== undefined && { policy }),
  };
  if (wiring === undefined || iface === undefined || network === undefined) return wiring;
  const addresses = listClaimableAddresses(wiring, facts);
  const guard = planSendGuard({ iface, network, cluster, mac: wiring.mac, addresses });
  return guard === undefined ? wiring : { ...wiring, guard };
}

export function buildLease(facts: WiredIface): GuestLease | undefined {
  return findBindingModule(facts).buildLease(toWiringFacts(facts));
}

type PodNicMember = "attachment" | "remembered" | "policy" | "swap";
const POD_NIC_MEMBERS: readonly string[] = [
  "attachment",
  "remembered",
  "policy",
  "swap",
] satisfies PodNicMember[];

export function toSwappedFacts<Facts extends object, SwapNic>(
  facts: Facts & { readonly swap: SwapNic },
): Omit<Facts, PodNicMember> & SwapNic {
  const remaining = Object.entries(facts).filter(([key]) => !POD_NIC_MEMBERS.includes(key));
  return { ...(Object.fromEntries(remaining) as Omit<Facts, PodNicMember>), ...facts.swap };
}

type ObservedIface = WiredIface & { readonly links: LinkFacts };

function listWirings(iface: ObservedIface): readonly ObservedWiring[] {
  return iface.links.hasPodInterface && !isMadeByHook(iface)
    ? [buildWiring(iface) ?? []].flat()
    : [];
}

/** Returns the wirings that should exist, one for each pod NIC. Includes the new pod NIC of a network swap. */
export function listExpectedWirings(ifaces: readonly IfaceFacts[]): readonly ObservedWiring[] {
  return ifaces.flatMap((iface) => {
    const { swap } = iface;
    const swapWirings = swap === undefined ? [] : listWirings(toSwappedFacts({ ...iface, swap }));
    return [...listWirings(iface), ...swapWirings];
  });
}

/** Returns the wirings of the pod NICs in use. Omits the new NIC of a network swap, because its policy applies only after the tap moved. */
export function listCurrentWirings(ifaces: readonly IfaceFacts[]): readonly ObservedWiring[] {
  return ifaces.flatMap(listWirings);
}

/**
 * Checks whether Patchbay can apply network policies to the NIC's frames. Patchbay cannot if another program creates the tap or the
 * device, or if a service mesh's proxy is between guest and peer: frames at the tap then have the proxy's address instead of the peer's.
 */
export function canEnforcePolicy({
  binding,
  policy,
  isMeshed,
}: Pick<IfaceFacts, "binding" | "policy" | "isMeshed">): boolean {
  const { kind } = findBindingModule({ binding });
  if (policy === undefined || kind === "bridge" || kind === "managedTap") return true;
  return kind === "masquerade" && isMeshed !== true;
}

/** Names of taps. `wired`: taps in complete wirings. `outdated`: taps whose rules differ from the network policies. */
interface ObservedTaps {
  readonly wired: ReadonlySet<string>;
  readonly outdated: ReadonlySet<string>;
}

/** Sets `isWired` from the wired taps. A vhost-user socket has no tap, so its `isWired` was set when the socket was observed. */
function withWiredLinks(
  iface: Pick<IfaceFacts, "name" | "podInterfaceName" | "links" | "binding">,
  { wired, outdated }: ObservedTaps,
): LinkFacts {
  const { name, podInterfaceName, links } = iface;
  if (findBindingModule(iface).kind === "vhostuser") return links;
  const tapName = links.tapName ?? buildIfaceNames(name, podInterfaceName).tapName;
  const isWired = links.hasPodInterface && wired.has(tapName);
  return { ...links, isWired, ...(isWired && outdated.has(tapName) && { isPolicyOutdated: true }) };
}

/**
 * Sets `isWired` and `isPolicyOutdated` of all interfaces. `wiredTaps` are the taps in complete wirings. `outdatedTaps` are taps whose
 * rules differ from the network policies. A NIC whose policy cannot be enforced counts as not wired.
 */
export function withWired(
  ifaces: readonly IfaceFacts[],
  wiredTaps: ReadonlySet<string>,
  outdatedTaps: ReadonlySet<string> = new Set(),
): readonly IfaceFacts[] {
  const taps = { wired: wiredTaps, outdated: outdatedTaps };
  return ifaces.map((iface) => {
    // A NIC that a hook creates has no wiring, so it counts as wired if its pod NIC exists.
    const observed = isMadeByHook(iface)
      ? { ...iface.links, isWired: iface.links.hasPodInterface }
      : withWiredLinks(iface, taps);
    const links = canEnforcePolicy(iface) ? observed : { ...observed, isWired: false };
    const { name, binding, swap } = iface;
    if (swap === undefined) return { ...iface, links };
    return {
      ...iface,
      links,
      swap: { ...swap, links: withWiredLinks({ name, binding, ...swap }, taps) },
    };
  });
}

interface PodLink {
  readonly name: string;
  readonly kind: string;
  readonly carrier: boolean;
}

export interface LinkOwners {
  readonly ifaces: readonly IfaceFacts[];
  readonly attachments: readonly Attachment[];
  readonly nics: readonly Pick<NicFacts, "tapName">[];
}

const BRIDGE_KIND = "bridge";
const TAP_KIND = "tun";
const LIMITER_KIND = "ifb";
const OWN_KINDS: readonly string[] = [BRIDGE_KIND, TAP_KIND, LIMITER_KIND];

function isOwnLink({ name, kind }: PodLink): boolean {
  return parseLinkName(name) !== undefined && OWN_KINDS.includes(kind);
}

/** Lists the interface's pod NICs, including the pod NIC after which the tap is named, because a swap does not rename the tap. */
function listPodNics({
  podInterfaceName,
  links,
  swap,
  leftovers = [],
}: IfaceFacts): readonly string[] {
  const ofTap = parseLinkName(links.tapName ?? "");
  return [podInterfaceName, ofTap ?? [], swap?.podInterfaceName ?? [], leftovers].flat();
}

function listOwnedPodNics({ ifaces, attachments, nics }: LinkOwners): ReadonlySet<string> {
  const podNics = [
    ...ifaces.flatMap(listPodNics),
    ...attachments.map(({ podInterfaceName }) => podInterfaceName),
  ];
  // If a pod NIC's name does not have KubeVirt's form, its links are named after a hash. `parseLinkName` returns this hash.
  const linkKeys = podNics.flatMap(
    (nic) => parseLinkName(buildIfaceNames("", nic).bridgeName) ?? [],
  );
  const ofTaps = nics.flatMap(({ tapName = "" }) => parseLinkName(tapName) ?? []);
  return new Set([...podNics, ...linkKeys, ...ofTaps]);
}

/** Returns wirings that belong to no interface and whose tap is not open. Ignores a lone `tap0`, which another program may own. */
export function findOrphanedWirings(
  links: readonly PodLink[],
  owners: LinkOwners,
): readonly RemovableWiring[] {
  const ownedPodNics = listOwnedPodNics(owners);
  const ownLinks = links.filter(isOwnLink);
  const podNics = new Set(ownLinks.map(({ name }) => parseLinkName(name) ?? ""));
  return [...podNics].sort().flatMap((podInterfaceName): readonly RemovableWiring[] => {
    const { bridgeName, tapName } = buildIfaceNames("", podInterfaceName);
    const hasLink = (name: string): boolean => ownLinks.some((link) => link.name === name);
    const isOpen = ownLinks.some((link) => link.name === tapName && link.carrier);
    const isForeignTap =
      podInterfaceName === DEFAULT_POD_INTERFACE &&
      !hasLink(bridgeName) &&
      !hasLink(buildLimiterName(tapName));
    if (ownedPodNics.has(podInterfaceName) || isOpen || isForeignTap) return [];
    return [{ kind: "bridge", podInterfaceName, bridgeName, tapName }];
  });
}

interface NicOptions extends NicPlacement {
  readonly hasBootRom?: true;
}

/** Returns a number of queues that the tap supports, as close to `wanted` as possible. Source: linux/drivers/net/tun.c */
function chooseQueueCount({ tapQueues }: IfaceFacts["links"], wanted: number): number {
  if (tapQueues === undefined) return wanted;
  return tapQueues === "one" ? 1 : Math.max(wanted, 2);
}

export function buildNicDefinition(facts: IfaceFacts, options: NicOptions): NicDefinition {
  const { tapName, alias } = buildIfaceNames(facts.name, facts.podInterfaceName);
  const { links } = facts;
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: findMac(facts),
    model: findModelName(facts.iface),
    ...(findBindingModule(facts).kind === "vhostuser"
      ? { socketPath: `${names.LAUNCHER_DIR}/${buildSocketLinkName(facts.podInterfaceName)}` }
      : { tapName: links.tapName ?? tapName }),
    mtu: findMtu(facts),
    linkUp: facts.iface?.state !== "down",
    ...options,
    queues: chooseQueueCount(links, options.queues),
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** Builds the definition of the existing device, with the given link state; undefined if the device or its PCI address is missing. */
export function buildLiveNic(iface: IfaceFacts, linkUp: boolean): NicDefinition | undefined {
  const { device } = iface;
  const pciAddress = parsePciAddress(device?.pciAddress ?? "");
  if (device === undefined || pciAddress === undefined) return undefined;
  const { queues, mac, hasBootRom, mtu = findMtu(iface) } = device;
  const rom = hasBootRom === undefined ? {} : { hasBootRom };
  return { ...buildNicDefinition(iface, { pciAddress, queues, ...rom }), mac, mtu, linkUp };
}

/**
 * Swaps the network: sets the link down, moves the tap to the bridge of the new network, and sets the link up. The new bridge
 * must already exist. If the move fails, the tap returns to its old bridge.
 */
export interface SwapAction {
  readonly kind: "swapNetwork";
  readonly iface: string;
  readonly from: BridgeWiring;
  readonly to: BridgeWiring;
  /** Device XML with the link down and up. Unset if the spec wants the link down, or if the device or its PCI address is missing. */
  readonly link?: { readonly down: string; readonly up: string };
}

export interface RemoveBridgeAction {
  readonly kind: "removeBridge";
  readonly iface: string;
  readonly bridgeName: string;
}

/** Plans a pending network swap. Returns an empty list if no swap is pending or if one of the wirings is not of kind `bridge`. */
export function planSwapNetwork(
  iface: IfaceFacts,
  wiringOf: (iface: IfaceFacts) => PodWiring | undefined,
): readonly SwapAction[] {
  const { swap } = iface;
  if (swap === undefined) return [];
  const [from, to] = [iface, toSwappedFacts({ ...iface, swap })].map(wiringOf);
  if (from?.kind !== "bridge" || to?.kind !== "bridge") return [];
  const [down, up] = [false, true].map((linkUp) => buildLiveNic(iface, linkUp));
  const isUp = iface.iface?.state !== "down";
  const link =
    isUp && down !== undefined && up !== undefined
      ? { link: { down: printNic(down), up: printNic(up) } }
      : {};
  return [{ kind: "swapNetwork", iface: iface.name, from, to, ...link }];
}

/** Plans the removal of one unused bridge that a network swap left behind. */
export function planLeftoverBridge({
  name,
  leftovers = [],
}: IfaceFacts): readonly RemoveBridgeAction[] {
  const [first] = leftovers;
  if (first === undefined) return [];
  return [
    { kind: "removeBridge", iface: name, bridgeName: buildIfaceNames(name, first).bridgeName },
  ];
}

/** Creates a symbolic link in the launcher's directory. The link refers to a vhost-user socket, and has the name that the domain uses. */
export interface LinkSocketAction {
  readonly kind: "linkSocket";
  readonly iface: string;
  readonly socket: VhostSocket;
}

export type VhostUserBlock =
  | SocketReason
  | "MemoryNotShared"
  | "InterruptVectors"
  | "BackendReplaced";

interface GuestFacts {
  readonly domain:
    | {
        readonly running: boolean;
        readonly facts: Pick<DomainFacts, "sharesMemory" | "hasNoNicVectors">;
      }
    | undefined;
  readonly useEmulation: boolean;
}

/** Returns why a vhost-user device cannot work, or undefined if it can. libvirt checks none of these reasons. */
export function findVhostUserBlock(
  iface: IfaceFacts,
  { domain, useEmulation }: GuestFacts,
): VhostUserBlock | undefined {
  if (findBindingModule(iface).kind !== "vhostuser") return undefined;
  const { socketProblem } = iface.links;
  if (socketProblem !== undefined) return socketProblem.reason;
  // A stopped domain needs no check, because it is redefined with vhost-user support before its next start.
  if (domain?.running !== true) return undefined;
  if (!domain.facts.sharesMemory) return "MemoryNotShared";
  return useEmulation && domain.facts.hasNoNicVectors !== true ? "InterruptVectors" : undefined;
}

export function planLinkSocket({
  name,
  podInterfaceName,
  attachment,
}: IfaceFacts): LinkSocketAction {
  const path = parseVhostUserInfo(attachment?.deviceInfo)?.path ?? "";
  return { kind: "linkSocket", iface: name, socket: { podInterfaceName, path } };
}

/** Unplug requests for one device that the guest has not yet released. */
export interface UnplugRequest {
  readonly count: number;
  readonly agoMs: number;
  /** Whether the last request failed. Source: libvirt VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED. */
  readonly isRefused: boolean;
}

/** Initial delay before an unplug request is repeated, in milliseconds. Source: measured with libvirt 9.0 and QEMU 7.2. */
const FIRST_RETRY_MS = 10_000;
/** Longest delay between unplug requests, in milliseconds. Requests are repeated until the guest responds. */
const MAX_RETRY_MS = 60_000;

/** Returns the time from the last request to the next, in milliseconds. `count` is the number of requests so far. */
export function computeUnplugRetryMs(count: number): number {
  return Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.max(0, count - UNPLUG_REQUESTS_MAX));
}
