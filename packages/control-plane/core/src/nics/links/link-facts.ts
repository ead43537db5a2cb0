// SPDX-License-Identifier: Apache-2.0
import type { BindingRegistry, Iface, Network } from "@patchbay/api";
import { isIpv6LinkLocal } from "../addresses/lease.ts";
import type { Binding, BindingKind, BindingRefusal } from "../bindings/binding.ts";
import { resolveBinding } from "../bindings/resolve-binding.ts";
import { planSendGuard } from "../bindings/send-guard.ts";
import { findByName } from "../nics.ts";
import { NO_LINKS, type IfaceFacts, type LinkFacts } from "../facts.ts";
import { ownTapName, namesOf, isOwnLinkName } from "../names.ts";
import { PORT_SECURITY_NOT_ENFORCED, socketProblem, type ObservedSocket } from "./vhost-socket.ts";
import { findBindingModule, type WiredIface } from "../node-plan.ts";

export interface KernelLink {
  readonly name: string;
  readonly index?: number;
  readonly mtu: number;
  /** Whether the link has a carrier. A tap has one while a process has it open. */
  readonly carrier: boolean;
  /** Addresses as ADDRESS/LENGTH. */
  readonly addresses?: readonly string[];
  readonly mac?: string;
  readonly master?: string;
  /** Whether a tap has one queue pair or several. Unset for other links. */
  readonly tapQueues?: "one" | "many";
}

interface LinkSources {
  readonly links: readonly KernelLink[];
  readonly sockets?: ReadonlyMap<string, ObservedSocket>;
  readonly isEmulated?: boolean;
  /** Index of the tap, or inode of the socket, that each device was last observed with. */
  readonly deviceTaps?: DeviceTaps;
}

/** Whether the device has this tap or socket open, which is assumed before the first observation. */
function isOpenedByDevice(
  { name }: WiredIface,
  index: number | undefined,
  { deviceTaps }: LinkSources,
): boolean {
  const known = deviceTaps?.get(name);
  return known === undefined || known === index;
}

function openFacts(
  iface: WiredIface,
  tap: KernelLink | undefined,
  sources: LinkSources,
): Pick<LinkFacts, "tapOpen" | "tapIndex"> {
  return {
    tapOpen: tap?.carrier === true && isOpenedByDevice(iface, tap.index, sources),
    ...(tap?.index === undefined ? {} : { tapIndex: tap.index }),
  };
}

function podNicFacts(
  nic: KernelLink | undefined,
): Pick<LinkFacts, "mac" | "index" | "hasAddresses" | "addresses"> {
  const { mac, index, master, addresses = [] } = nic ?? {};
  const isFree = master === undefined && addresses.some((address) => !isIpv6LinkLocal(address));
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(index === undefined ? {} : { index }),
    ...(isFree ? { hasAddresses: true, addresses } : {}),
  };
}

function ownLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const { podInterfaceName, bridgeName, ...names } = namesOf(iface.name, iface.podInterfaceName);
  const tapName = ownTapName(iface.name, podInterfaceName);
  const nic = findByName(links, podInterfaceName);
  const tap = findByName(links, tapName);
  const own = {
    mtu: nic?.mtu ?? 0,
    ...podNicFacts(nic),
    ...(tapName === names.tapName ? {} : { tapName }),
  };
  return {
    podInterface: nic !== undefined,
    bridge: findByName(links, bridgeName) !== undefined,
    tap: tap !== undefined,
    wired: false,
    ...openFacts(iface, tap, sources),
    ...own,
  };
}

/** Collects the facts for a tap of the network's plugin. No link belongs to Patchbay. */
function pluginLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const names = namesOf(iface.name, iface.podInterfaceName);
  const nic = findByName(links, names.podInterfaceName);
  const tapName = findBindingModule(iface).findTap(names, new Set(links.map(({ name }) => name)));
  const tap = findByName(links, tapName);
  const own = {
    mtu: tap?.mtu ?? 0,
    ...podNicFacts(nic),
    tapName,
    ...(tap?.tapQueues === undefined ? {} : { tapQueues: tap.tapQueues }),
  };
  return {
    podInterface: tap !== undefined,
    bridge: false,
    tap: false,
    wired: false,
    ...openFacts(iface, tap, sources),
    ...own,
  };
}

function hookLinkFacts({ podInterfaceName }: WiredIface, { links }: LinkSources): LinkFacts {
  const nic = findByName(links, podInterfaceName);
  const observed = { podInterface: nic !== undefined, tapOpen: true, mtu: nic?.mtu ?? 0 };
  return { ...NO_LINKS, ...observed, ...podNicFacts(nic) };
}

function isGuarded({ iface, network, security: cluster }: WiredIface): boolean {
  if (iface === undefined || network === undefined || cluster === undefined) return false;
  return planSendGuard({ iface, network, cluster, mac: "", addresses: [] }) !== undefined;
}

/** Collects the facts for a socket, which replaces links. The device loses its connection if the socket is recreated. */
function socketLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const observed = sources.sockets?.get(iface.podInterfaceName);
  const problem = isGuarded(iface)
    ? PORT_SECURITY_NOT_ENFORCED
    : socketProblem(iface.attachment, observed);
  const exists = observed?.id !== undefined && problem === undefined;
  return {
    ...NO_LINKS,
    podInterface: exists,
    wired: exists && observed.state === "ready",
    tapOpen: exists && isOpenedByDevice(iface, observed.id, sources),
    ...(exists && { tapIndex: observed.id }),
    // With several queues libvirt requests interrupt vectors, which crash an emulated QEMU. Source: measured, libvirt 9.0.
    ...(sources.isEmulated === true && { tapQueues: "one" }),
    ...(problem !== undefined && { socketProblem: problem }),
  };
}

const LINK_FACTS_BY_BINDING: Readonly<
  Record<BindingKind, (iface: WiredIface, sources: LinkSources) => LinkFacts>
> = {
  bridge: ownLinkFacts,
  masquerade: ownLinkFacts,
  managedTap: ownLinkFacts,
  tap: pluginLinkFacts,
  vhostuser: socketLinkFacts,
  hook: hookLinkFacts,
};

export function collectLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  if (iface.podInterfaceName === "") return NO_LINKS;
  return LINK_FACTS_BY_BINDING[findBindingModule(iface).kind](iface, sources);
}

type NamedIface = Pick<WiredIface, "name" | "podInterfaceName"> & {
  readonly device?: IfaceFacts["device"];
};

/** Infers the binding of a deleted interface. A tap without Patchbay's bridge was created by a plugin. */
function inferBindingKind(
  { name, podInterfaceName, device }: NamedIface,
  links: readonly KernelLink[],
): BindingKind {
  if (device?.speaksVhostUser === true) return "vhostuser";
  const { bridgeName, tapName } = namesOf(name, podInterfaceName);
  const [bridge, tap] = [bridgeName, tapName].map((each) => findByName(links, each));
  return tap !== undefined && bridge === undefined ? "tap" : "bridge";
}

export function collectBindingFacts(
  named: NamedIface,
  declared: { readonly iface?: Iface; readonly network?: Network },
  { links, bindings }: Pick<LinkSources, "links"> & { readonly bindings: BindingRegistry },
): Binding | BindingRefusal {
  const { iface, network } = declared;
  if (iface === undefined) return { kind: inferBindingKind(named, links) };
  const binding = resolveBinding(iface, network, bindings);
  return binding.kind === "refused"
    ? { ...binding, leftover: inferBindingKind(named, links) }
    : binding;
}

/** Index of the tap that each device was observed with, by interface. QEMU does not open a new tap with the same name. */
export type DeviceTaps = ReadonlyMap<string, number>;

/** Updates the indices after an observation. Drops removed devices, because they open their tap again when they are re-added. */
export function updateDeviceTaps(ifaces: readonly IfaceFacts[], before: DeviceTaps): DeviceTaps {
  return new Map(
    ifaces.flatMap(({ name, device, links }): readonly (readonly [string, number])[] => {
      const index = links.tapOpen ? links.tapIndex : before.get(name);
      return device === undefined || index === undefined ? [] : [[name, index]];
    }),
  );
}

interface ChangedLink {
  readonly index: number;
  readonly name?: string;
}

interface ObservedLink {
  readonly name: string;
  readonly index: number;
}

/** Returns the link names to watch. Ignores a pod NIC while CNI adds it, because it changes often and the attachment's state reports the end. */
function watchedNames(iface: IfaceFacts): readonly string[] {
  const { podInterfaceName, tapName } = namesOf(iface.name, iface.podInterfaceName);
  const { tap, bridge } = iface.links;
  if (iface.attachment?.state !== "Attached" && !tap && !bridge) return [];
  return [podInterfaceName, iface.links.tapName ?? tapName];
}

/**
 * Returns a wake filter for link changes after an observation of `links`. Observed links match by index, because a link
 * may be renamed; other links match by name. `unknown` always wakes.
 */
export function buildLinkFilter(
  ifaces: readonly IfaceFacts[],
  links: readonly ObservedLink[],
): (changes: readonly ChangedLink[] | "unknown") => boolean {
  const names = new Set(ifaces.flatMap(watchedNames));
  const isRelevant = (name: string): boolean => names.has(name) || isOwnLinkName(name);
  const indices = new Set(links.filter(({ name }) => isRelevant(name)).map(({ index }) => index));
  return (changes) =>
    changes === "unknown" ||
    changes.some(
      ({ index, name }) => indices.has(index) || (name !== undefined && isRelevant(name)),
    );
}
