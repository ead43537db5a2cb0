// SPDX-License-Identifier: Apache-2.0
// NICs on the node: the wiring of each interface in the pod, the NIC device of the domain, network swaps, vhost-user
// sockets, and unplug requests.
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
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { findMac, type MacFacts } from "./mac.ts";
import { namesOf, DEFAULT_POD_INTERFACE, podInterfaceOfLink } from "./names.ts";
import {
  type NicFacts,
  parsePciAddress,
  printNic,
  type NicDefinition,
  type DomainFacts,
} from "@patchbay/domain";
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
  | "awaitedIn"
> &
  MacFacts & {
    readonly links?: Partial<Pick<LinkFacts, "mac" | "mtu" | "tapName" | "addresses">>;
  };

/** Returns the binding module for the interface's links. A refused interface may still have links from an earlier binding. */
export function findBindingModule({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? (binding.leftover ?? "bridge") : binding.kind];
}

export function isMadeByHook({ binding }: Pick<IfaceFacts, "binding">): boolean {
  return binding.kind === "hook";
}

/** Collects the facts for a wiring. The device's MAC takes precedence over the spec's, because the running guest uses it. */
function toWiringFacts(facts: WiredIface): WiringFacts {
  const { iface, network, links = {}, remembered } = facts;
  const names = namesOf(facts.name, facts.podInterfaceName);
  return {
    podInterfaceName: names.podInterfaceName,
    bridgeName: names.bridgeName,
    tapName: links.tapName ?? names.tapName,
    mac: facts.device?.mac ?? findMac(facts),
    mtu: links.mtu ?? 0,
    podAddresses: links.addresses ?? [],
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
    ...(remembered === undefined ? {} : { remembered }),
  };
}

const NO_PORT_SECURITY: ClusterSecurity = { mode: "Off", enforced: false };
/** Link-local addresses, which a guest behind the pod's addresses may all use, because only its gateway is on its link. */
const ANY_LINK_LOCAL = "fe80::/10";

/**
 * Returns the addresses that the guest may use: those that the kernel had on the pod NIC. The pod's annotations are not
 * trusted, because all users who may edit pods can change them.
 */
function listClaimableAddresses(wiring: ObservedWiring, facts: WiredIface): readonly string[] {
  if (wiring.kind === "masquerade") {
    const guests = [wiring.ipv4, wiring.ipv6].flatMap((subnet) => subnet?.guest ?? []);
    return [...guests, ANY_LINK_LOCAL];
  }
  const addresses = facts.remembered?.addresses ?? facts.links?.addresses ?? [];
  return [...new Set(addresses.map(withoutPrefixLength))];
}

/** Returns the interface's wiring with its send guard; undefined if it needs no links. */
export function buildWiring(facts: WiredIface): ObservedWiring | undefined {
  const { iface, network, awaitedIn, security: cluster = NO_PORT_SECURITY } = facts;
  const unguarded = findBindingModule(facts).buildWiring(toWiringFacts(facts));
  const wiring = unguarded && { ...unguarded, ...(awaitedIn !== undefined && { awaitedIn }) };
  if (wiring === undefined || iface === undefined || network === undefined) return wiring;
  const addresses = listClaimableAddresses(wiring, facts);
  const guard = planSendGuard({ iface, network, cluster, mac: wiring.mac, addresses });
  return guard === undefined ? wiring : { ...wiring, guard };
}

export function buildLease(facts: WiredIface): GuestLease | undefined {
  return findBindingModule(facts).buildLease(toWiringFacts(facts));
}

type PodNicMember = "attachment" | "remembered" | "swap";
const POD_NIC_MEMBERS: readonly string[] = [
  "attachment",
  "remembered",
  "swap",
] satisfies PodNicMember[];

export function afterSwap<Facts extends object, There>(
  facts: Facts & { readonly swap: There },
): Omit<Facts, PodNicMember> & There {
  const others = Object.entries(facts).filter(([key]) => !POD_NIC_MEMBERS.includes(key));
  return { ...(Object.fromEntries(others) as Omit<Facts, PodNicMember>), ...facts.swap };
}

type OnNetwork = WiredIface & { readonly links: LinkFacts };

function listWirings(iface: OnNetwork): readonly ObservedWiring[] {
  return iface.links.podInterface && !isMadeByHook(iface) ? [buildWiring(iface) ?? []].flat() : [];
}

/** Returns the wirings that should exist: one for each pod NIC, including the target of a network swap. */
export function expectedWirings(ifaces: readonly IfaceFacts[]): readonly ObservedWiring[] {
  return ifaces.flatMap((iface) => {
    const { swap } = iface;
    const there = swap === undefined ? [] : listWirings(afterSwap({ ...iface, swap }));
    return [...listWirings(iface), ...there];
  });
}

/** Sets `wired` for an interface with links. Sockets have no kernel link, and their `wired` is already known. */
function withWiredLinks(
  iface: Pick<IfaceFacts, "name" | "podInterfaceName" | "links" | "binding">,
  wiredTaps: ReadonlySet<string>,
): LinkFacts {
  const { name, podInterfaceName, links } = iface;
  if (findBindingModule(iface).kind === "vhostuser") return links;
  const tapName = links.tapName ?? namesOf(name, podInterfaceName).tapName;
  return { ...links, wired: links.podInterface && wiredTaps.has(tapName) };
}

/** Sets `wired` of all interfaces. `wiredTaps` are the taps of the wirings that the pod network found complete. */
export function withWired(
  ifaces: readonly IfaceFacts[],
  wiredTaps: ReadonlySet<string>,
): readonly IfaceFacts[] {
  return ifaces.map((iface) => {
    // A hook's NIC has no wiring, so it is always complete.
    const links = isMadeByHook(iface)
      ? { ...iface.links, wired: iface.links.podInterface }
      : withWiredLinks(iface, wiredTaps);
    const { name, binding, swap } = iface;
    if (swap === undefined) return { ...iface, links };
    return {
      ...iface,
      links,
      swap: { ...swap, links: withWiredLinks({ name, binding, ...swap }, wiredTaps) },
    };
  });
}

interface PodLink {
  readonly name: string;
  readonly kind: string;
  /** Whether the link has a carrier. A tap has one while a process has it open. */
  readonly carrier: boolean;
}

export interface LinkOwners {
  readonly ifaces: readonly IfaceFacts[];
  readonly attachments: readonly Attachment[];
  readonly nics: readonly Pick<NicFacts, "tapName">[];
}

const BRIDGE = "bridge";
const TAP = "tun";

function isOwnLink({ name, kind }: PodLink): boolean {
  return podInterfaceOfLink(name) !== undefined && (kind === BRIDGE || kind === TAP);
}

/** Lists the pod NICs to which links of the interface belong. During and after a swap, its tap may be named after another pod NIC. */
function listPodNics({
  podInterfaceName,
  links,
  swap,
  leftovers = [],
}: IfaceFacts): readonly string[] {
  const ofTap = podInterfaceOfLink(links.tapName ?? "");
  return [podInterfaceName, ofTap ?? [], swap?.podInterfaceName ?? [], leftovers].flat();
}

function listOwnedPodNics({ ifaces, attachments, nics }: LinkOwners): ReadonlySet<string> {
  return new Set([
    ...ifaces.flatMap(listPodNics),
    ...attachments.map(({ podInterfaceName }) => podInterfaceName),
    ...nics.flatMap(({ tapName = "" }) => podInterfaceOfLink(tapName) ?? []),
  ]);
}

/**
 * Returns wirings without an owner, by pod NIC. Skips open taps, which are in use, and a `tap0` without a bridge, because
 * other programs use that name too.
 */
export function findOrphanedWirings(
  links: readonly PodLink[],
  owners: LinkOwners,
): readonly RemovableWiring[] {
  const owned = listOwnedPodNics(owners);
  const ours = links.filter(isOwnLink);
  const podNics = new Set(ours.map(({ name }) => podInterfaceOfLink(name) ?? ""));
  return [...podNics].sort().flatMap((podInterfaceName): readonly RemovableWiring[] => {
    const { bridgeName, tapName } = namesOf("", podInterfaceName);
    const has = (name: string): boolean => ours.some((link) => link.name === name);
    const isOpen = ours.some((link) => link.name === tapName && link.carrier);
    const isForeignTap = podInterfaceName === DEFAULT_POD_INTERFACE && !has(bridgeName);
    if (owned.has(podInterfaceName) || isOpen || isForeignTap) return [];
    return [{ kind: "bridge", podInterfaceName, bridgeName, tapName }];
  });
}

interface NicOptions extends NicPlacement {
  readonly hasBootRom?: true;
}

/** Returns the device's queues. A tap with several queues cannot be opened for a single queue, and vice versa. Source: linux/drivers/net/tun.c */
function queuesFor({ tapQueues }: IfaceFacts["links"], wanted: number): number {
  if (tapQueues === undefined) return wanted;
  return tapQueues === "one" ? 1 : Math.max(wanted, 2);
}

export function buildNicDefinition(facts: IfaceFacts, options: NicOptions): NicDefinition {
  const { tapName, alias } = namesOf(facts.name, facts.podInterfaceName);
  const { links } = facts;
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: findMac(facts),
    model: findModelName(facts.iface),
    ...(findBindingModule(facts).kind === "vhostuser"
      ? { socketPath: `${names.LAUNCHER_DIR}/${buildSocketLinkName(facts.podInterfaceName)}` }
      : { tapName: links.tapName ?? tapName }),
    mtu: links.mtu,
    linkUp: facts.iface?.state !== "down",
    ...options,
    queues: queuesFor(links, options.queues),
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** Returns the existing device with the given link state; undefined if there is none or libvirt has not placed it yet. */
export function buildLiveNic(iface: IfaceFacts, linkUp: boolean): NicDefinition | undefined {
  const { device } = iface;
  const pciAddress = parsePciAddress(device?.pciAddress ?? "");
  if (device === undefined || pciAddress === undefined) return undefined;
  const { queues, mac, hasBootRom, mtu = iface.links.mtu } = device;
  const rom = hasBootRom === undefined ? {} : { hasBootRom };
  return { ...buildNicDefinition(iface, { pciAddress, queues, ...rom }), mac, mtu, linkUp };
}

/**
 * Swaps the network in one step: sets the link down, moves the tap to the other bridge, which exists already, and sets the
 * link up. A tap that cannot be moved is returned to its bridge.
 */
export interface SwapAction {
  readonly kind: "swapNetwork";
  readonly iface: string;
  readonly from: BridgeWiring;
  readonly to: BridgeWiring;
  /** Device XML with the link down and up; unset if the link stays down. */
  readonly link?: { readonly down: string; readonly up: string };
}

/** Removes the bridge of a pod NIC that is no longer in use. */
export interface RemoveBridgeAction {
  readonly kind: "removeBridge";
  readonly iface: string;
  readonly bridgeName: string;
}

/** Plans the swap; empty if no network swap is pending or a wiring is not a bridge. */
export function planSwapNetwork(
  iface: IfaceFacts,
  wiringOf: (iface: IfaceFacts) => PodWiring | undefined,
): readonly SwapAction[] {
  const { swap } = iface;
  if (swap === undefined) return [];
  const [from, to] = [iface, afterSwap({ ...iface, swap })].map(wiringOf);
  if (from?.kind !== "bridge" || to?.kind !== "bridge") return [];
  const [down, up] = [false, true].map((linkUp) => buildLiveNic(iface, linkUp));
  const isUp = iface.iface?.state !== "down";
  const link =
    isUp && down !== undefined && up !== undefined
      ? { link: { down: printNic(down), up: printNic(up) } }
      : {};
  return [{ kind: "swapNetwork", iface: iface.name, from, to, ...link }];
}

/** Plans the removal of one bridge of a network that the interface has left. */
export function planLeftoverBridge({
  name,
  leftovers = [],
}: IfaceFacts): readonly RemoveBridgeAction[] {
  const [first] = leftovers;
  if (first === undefined) return [];
  return [{ kind: "removeBridge", iface: name, bridgeName: namesOf(name, first).bridgeName }];
}

/** Shares a socket with the launcher under the name that its domain uses. */
export interface LinkSocketAction {
  readonly kind: "linkSocket";
  readonly iface: string;
  readonly socket: VhostSocket;
}

export type VhostUserWait =
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

/** Returns why a vhost-user device would not work. libvirt accepts such a device nevertheless. */
export function findVhostUserBlock(
  iface: IfaceFacts,
  { domain, useEmulation }: GuestFacts,
): VhostUserWait | undefined {
  if (findBindingModule(iface).kind !== "vhostuser") return undefined;
  const { socketProblem } = iface.links;
  if (socketProblem !== undefined) return socketProblem.reason;
  // A domain that is not running will be defined for vhost-user.
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

/** Unanswered requests to the guest to release a device. */
export interface UnplugRequest {
  readonly count: number;
  readonly agoMs: number;
  /** Whether the last request failed. Source: libvirt VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED. */
  readonly isRefused: boolean;
}

/** Delay before a request is repeated. Requests are lost silently while the firmware runs. Source: measured on libvirt 9.0 and QEMU 7.2. */
const FIRST_RETRY_MS = 10_000;
/** Longest delay between requests. They are repeated forever, because a guest answers once it is reset or loads its driver. */
const MAX_RETRY_MS = 60_000;

/** Returns the milliseconds between the last request and the next one. `count` is the number of requests sent. */
export function unplugRetryMs(count: number): number {
  return Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.max(0, count - UNPLUG_REQUESTS_MAX));
}
