// SPDX-License-Identifier: Apache-2.0
import type { ClusterSecurity, Attachment } from "@patchbay/api";
import type { GuestLease } from "../addresses/lease.ts";
import { BINDINGS, type BindingModule, type WiringFacts } from "../bindings/binding.ts";
import type { ObservedWiring, RemovableWiring } from "../bindings/pod-wiring.ts";
import { withoutPrefixLength, planSendGuard } from "../bindings/send-guard.ts";
import type { IfaceFacts, LinkFacts } from "../facts.ts";
import { findMac, type MacFacts } from "../mac.ts";
import { namesOf, DEFAULT_POD_INTERFACE, podInterfaceOfLink } from "../names.ts";
import type { NicFacts } from "@patchbay/domain";

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

/** The binding module for the interface's links. A refused interface may have links from before it was refused. */
export function findBindingModule({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? (binding.leftover ?? "bridge") : binding.kind];
}

export function isMadeByHook({ binding }: Pick<IfaceFacts, "binding">): boolean {
  return binding.kind === "hook";
}

/** The device's MAC counts before the spec's: the running guest sends with it. */
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
/** Behind the pod's addresses the guest is alone with its gateway, so any link-local address is harmless. */
const ANY_LINK_LOCAL = "fe80::/10";

/**
 * Addresses that the guest may claim: those that the kernel had on the pod NIC. The pod's annotations do not count,
 * because everyone who may edit pods can write them.
 */
function listClaimableAddresses(wiring: ObservedWiring, facts: WiredIface): readonly string[] {
  if (wiring.kind === "masquerade") {
    const guests = [wiring.ipv4, wiring.ipv6].flatMap((subnet) => subnet?.guest ?? []);
    return [...guests, ANY_LINK_LOCAL];
  }
  const addresses = facts.remembered?.addresses ?? facts.links?.addresses ?? [];
  return [...new Set(addresses.map(withoutPrefixLength))];
}

/** The links of an interface, with its send guard. Undefined if it needs none. */
export function buildWiring(facts: WiredIface): ObservedWiring | undefined {
  const { iface, network, awaitedIn, security: cluster = NO_PORT_SECURITY } = facts;
  const made = findBindingModule(facts).buildWiring(toWiringFacts(facts));
  const wiring = made && { ...made, ...(awaitedIn !== undefined && { awaitedIn }) };
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

/** The wirings that should exist: one for each pod NIC, including the target of a network swap. */
export function expectedWirings(ifaces: readonly IfaceFacts[]): readonly ObservedWiring[] {
  return ifaces.flatMap((iface) => {
    const { swap } = iface;
    const there = swap === undefined ? [] : listWirings(afterSwap({ ...iface, swap }));
    return [...listWirings(iface), ...there];
  });
}

/** Sockets have no kernel link; `wired` is already known for them. */
function withWiredLinks(
  iface: Pick<IfaceFacts, "name" | "podInterfaceName" | "links" | "binding">,
  wiredTaps: ReadonlySet<string>,
): LinkFacts {
  const { name, podInterfaceName, links } = iface;
  if (findBindingModule(iface).kind === "vhostuser") return links;
  const tapName = links.tapName ?? namesOf(name, podInterfaceName).tapName;
  return { ...links, wired: links.podInterface && wiredTaps.has(tapName) };
}

/** Sets `wired`. `wiredTaps` names the taps of the wirings that the pod network found complete. */
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
  /** For a tap: a process has it open. */
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

/** Pod NICs that the interface has links around. During and after a swap, its tap may be named after another pod NIC. */
function listPodNics({
  podInterfaceName,
  links,
  swap,
  leftovers: left = [],
}: IfaceFacts): readonly string[] {
  const ofTap = podInterfaceOfLink(links.tapName ?? "");
  return [podInterfaceName, ofTap ?? [], swap?.podInterfaceName ?? [], left].flat();
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
  const around = new Set(ours.map(({ name }) => podInterfaceOfLink(name) ?? ""));
  return [...around].sort().flatMap((podInterfaceName): readonly RemovableWiring[] => {
    const { bridgeName, tapName } = namesOf("", podInterfaceName);
    const has = (name: string): boolean => ours.some((link) => link.name === name);
    const isOpen = ours.some((link) => link.name === tapName && link.carrier);
    const isNobodys = podInterfaceName === DEFAULT_POD_INTERFACE && !has(bridgeName);
    if (owned.has(podInterfaceName) || isOpen || isNobodys) return [];
    return [{ kind: "bridge", podInterfaceName, bridgeName, tapName }];
  });
}
