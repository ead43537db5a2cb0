// SPDX-License-Identifier: Apache-2.0
import type { BindingRegistry, Iface, Network } from "@patchbay/api";
import { isIpv6LinkLocal } from "../addresses/lease.ts";
import type { Binding, BindingKind, BindingRefusal } from "../bindings/binding.ts";
import { resolveBinding } from "../bindings/resolve-binding.ts";
import { planSendGuard } from "../bindings/send-guard.ts";
import { findByName } from "../nics.ts";
import { NO_LINKS, type IfaceFacts, type LinkFacts } from "../facts.ts";
import { buildTapName, buildIfaceNames, isOwnLinkName } from "../names.ts";
import {
  PORT_SECURITY_NOT_ENFORCED,
  findSocketProblem,
  type ObservedSocket,
} from "./vhost-socket.ts";
import { findBindingModule, type WiredIface } from "../node-plan.ts";

export interface KernelLink {
  readonly name: string;
  readonly index?: number;
  readonly mtu: number;
  readonly carrier: boolean;
  /** Addresses as ADDRESS/LENGTH. */
  readonly addresses?: readonly string[];
  readonly mac?: string;
  readonly master?: string;
  readonly tapQueues?: "one" | "many";
}

interface LinkSources {
  readonly links: readonly KernelLink[];
  readonly sockets?: ReadonlyMap<string, ObservedSocket>;
  readonly isEmulated?: boolean;
  readonly deviceTaps?: DeviceTaps;
}

/** Checks whether the device has the current tap or socket open, not a deleted one. Returns true if it is unknown which one it opened. */
function isOpenedByDevice(
  { name }: WiredIface,
  index: number | undefined,
  { deviceTaps }: LinkSources,
): boolean {
  const known = deviceTaps?.get(name);
  return known === undefined || known === index;
}

function collectOpenFacts(
  iface: WiredIface,
  tap: KernelLink | undefined,
  sources: LinkSources,
): Pick<LinkFacts, "isTapOpen" | "tapIndex"> {
  return {
    isTapOpen: tap?.carrier === true && isOpenedByDevice(iface, tap.index, sources),
    ...(tap?.index === undefined ? {} : { tapIndex: tap.index }),
  };
}

function collectPodNicFacts(
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

function collectOwnLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const { podInterfaceName, bridgeName, ...names } = buildIfaceNames(
    iface.name,
    iface.podInterfaceName,
  );
  const tapName = buildTapName(iface.name, podInterfaceName);
  const nic = findByName(links, podInterfaceName);
  const tap = findByName(links, tapName);
  const nicFacts = {
    mtu: nic?.mtu ?? 0,
    ...collectPodNicFacts(nic),
    ...(tapName === names.tapName ? {} : { tapName }),
  };
  return {
    hasPodInterface: nic !== undefined,
    hasBridge: findByName(links, bridgeName) !== undefined,
    hasTap: tap !== undefined,
    isWired: false,
    ...collectOpenFacts(iface, tap, sources),
    ...nicFacts,
  };
}

function collectPluginLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const names = buildIfaceNames(iface.name, iface.podInterfaceName);
  const nic = findByName(links, names.podInterfaceName);
  const tapName = findBindingModule(iface).findTap(names, new Set(links.map(({ name }) => name)));
  const tap = findByName(links, tapName);
  const nicFacts = {
    mtu: tap?.mtu ?? 0,
    ...collectPodNicFacts(nic),
    tapName,
    ...(tap?.tapQueues === undefined ? {} : { tapQueues: tap.tapQueues }),
  };
  return {
    hasPodInterface: tap !== undefined,
    hasBridge: false,
    hasTap: false,
    isWired: false,
    ...collectOpenFacts(iface, tap, sources),
    ...nicFacts,
  };
}

function collectHookLinkFacts({ podInterfaceName }: WiredIface, { links }: LinkSources): LinkFacts {
  const nic = findByName(links, podInterfaceName);
  const observed = { hasPodInterface: nic !== undefined, isTapOpen: true, mtu: nic?.mtu ?? 0 };
  return { ...NO_LINKS, ...observed, ...collectPodNicFacts(nic) };
}

function isGuarded({ iface, network, security: cluster }: WiredIface): boolean {
  if (iface === undefined || network === undefined || cluster === undefined) return false;
  return planSendGuard({ iface, network, cluster, mac: "", addresses: [] }) !== undefined;
}

/**
 * Collects the facts for a vhost-user socket. If the dataplane recreates the socket, `isTapOpen` becomes false, because the device is
 * still connected to the deleted socket.
 */
function collectSocketLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  const observed = sources.sockets?.get(iface.podInterfaceName);
  const problem = isGuarded(iface)
    ? PORT_SECURITY_NOT_ENFORCED
    : findSocketProblem(iface.attachment, observed);
  const exists = observed?.id !== undefined && problem === undefined;
  return {
    ...NO_LINKS,
    hasPodInterface: exists,
    isWired: exists && observed.state === "ready",
    isTapOpen: exists && isOpenedByDevice(iface, observed.id, sources),
    ...(exists && { tapIndex: observed.id }),
    // With several queues, libvirt configures interrupt vectors, which crash an emulated guest's QEMU. Source: measured with libvirt 9.0.
    ...(sources.isEmulated === true && { tapQueues: "one" }),
    ...(problem !== undefined && { socketProblem: problem }),
  };
}

const LINK_FACTS_BY_BINDING: Readonly<
  Record<BindingKind, (iface: WiredIface, sources: LinkSources) => LinkFacts>
> = {
  bridge: collectOwnLinkFacts,
  masquerade: collectOwnLinkFacts,
  managedTap: collectOwnLinkFacts,
  tap: collectPluginLinkFacts,
  vhostuser: collectSocketLinkFacts,
  hook: collectHookLinkFacts,
};

export function collectLinkFacts(iface: WiredIface, sources: LinkSources): LinkFacts {
  if (iface.podInterfaceName === "") return NO_LINKS;
  return LINK_FACTS_BY_BINDING[findBindingModule(iface).kind](iface, sources);
}

type NamedIface = Pick<WiredIface, "name" | "podInterfaceName"> & {
  readonly device?: IfaceFacts["device"];
};

/** Infers the binding from existing links. A tap without one of Patchbay's bridges was created by a plugin. */
function inferBindingKind(
  { name, podInterfaceName, device }: NamedIface,
  links: readonly KernelLink[],
): BindingKind {
  if (device?.isVhostUser === true) return "vhostuser";
  const { bridgeName, tapName } = buildIfaceNames(name, podInterfaceName);
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

/** Ifindex or inode of the tap or socket that each interface's device has open. If a tap is recreated, QEMU has the old tap open. */
export type DeviceTaps = ReadonlyMap<string, number>;

/** Adds the observed taps to `previous`. Drops the entries of removed devices, because a device that is plugged later opens another tap. */
export function updateDeviceTaps(ifaces: readonly IfaceFacts[], previous: DeviceTaps): DeviceTaps {
  return new Map(
    ifaces.flatMap(({ name, device, links }): readonly (readonly [string, number])[] => {
      const index = links.isTapOpen ? links.tapIndex : previous.get(name);
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

/** Returns the names of the pod NIC and the tap. Returns none before ADD ends, because the attachment's state reports the end of ADD. */
function listWatchedNames(iface: IfaceFacts): readonly string[] {
  const { podInterfaceName, tapName } = buildIfaceNames(iface.name, iface.podInterfaceName);
  const { hasTap, hasBridge } = iface.links;
  if (iface.attachment?.state !== "Attached" && !hasTap && !hasBridge) return [];
  return [podInterfaceName, iface.links.tapName ?? tapName];
}

/**
 * Returns a filter for changes of the interfaces' links. The filter recognizes observed links by index, because they may be
 * renamed, and other links by name. `unknown` always passes.
 */
export function buildLinkFilter(
  ifaces: readonly IfaceFacts[],
  links: readonly ObservedLink[],
): (changes: readonly ChangedLink[] | "unknown") => boolean {
  const names = new Set(ifaces.flatMap(listWatchedNames));
  const isRelevant = (name: string): boolean => names.has(name) || isOwnLinkName(name);
  const indices = new Set(links.filter(({ name }) => isRelevant(name)).map(({ index }) => index));
  return (changes) =>
    changes === "unknown" ||
    changes.some(
      ({ index, name }) => indices.has(index) || (name !== undefined && isRelevant(name)),
    );
}
