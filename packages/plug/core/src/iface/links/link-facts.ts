// SPDX-License-Identifier: Apache-2.0
// What the links in a pod say of one iface.
import type { BindingRegistry, Iface, Network } from "@patchbay/api";
import { isIpv6LinkLocal } from "../../addresses/lease.ts";
import type { Binding, BindingKind, BindingRefusal } from "../../bindings/binding.ts";
import { bindingOf } from "../../bindings/resolve-binding.ts";
import { sendGuardOf } from "../../bindings/send-guard.ts";
import { findByName } from "../../spec/nics.ts";
import type { DeviceTaps } from "./device-taps.ts";
import { NO_LINKS, type IfaceFacts, type LinkFacts } from "../facts.ts";
import { madeTapOf, namesOf } from "../names.ts";
import { PORT_SECURITY_NOT_KEPT, socketProblem, type SeenSocket } from "./vhost-socket.ts";
import { moduleOf, type WiredIface } from "./wiring.ts";

/** A link as the kernel has it. */
export interface KernelLink {
  readonly name: string;
  readonly index?: number;
  /** Bytes. */
  readonly mtu: number;
  /** Of a tap: somebody has it open. */
  readonly carrier: boolean;
  /** ADDRESS/LENGTH. */
  readonly addresses?: readonly string[];
  readonly mac?: string;
  /** Name of the bridge that it is a port of. */
  readonly master?: string;
  /** Of a tap: whether it takes one pair of queues, or several. */
  readonly takesQueues?: "one" | "many";
}

/** The links, and what else is needed to know them. */
export interface LinkSources {
  readonly links: readonly KernelLink[];
  readonly sockets?: ReadonlyMap<string, SeenSocket>;
  /** Whether the guest runs under software emulation; absent: it does not. */
  readonly isEmulated?: boolean;
  /** With which tap, or socket, each device was seen last; absent where nobody remembers. */
  readonly deviceTaps?: DeviceTaps;
}

/** Whether the tap, or the socket, is the one that the device has open, as far as anybody remembers. */
function isDevices(
  { name }: WiredIface,
  index: number | undefined,
  { deviceTaps }: LinkSources,
): boolean {
  const known = deviceTaps?.get(name);
  return known === undefined || known === index;
}

/** What is seen of what the device opens. */
function openFacts(
  iface: WiredIface,
  tap: KernelLink | undefined,
  sources: LinkSources,
): Pick<LinkFacts, "tapOpen" | "tapIndex"> {
  return {
    tapOpen: tap?.carrier === true && isDevices(iface, tap.index, sources),
    ...(tap?.index === undefined ? {} : { tapIndex: tap.index }),
  };
}

/** What the pod NIC says of itself, where there is one. */
function nicFactsOf(
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

/** What the device opens, where it is ours to make. */
function madeLinksOf(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const { podInterfaceName, bridgeName, ...names } = namesOf(iface.name, iface.podInterfaceName);
  const tapName = madeTapOf(iface.name, podInterfaceName);
  const nic = findByName(links, podInterfaceName);
  const tap = findByName(links, tapName);
  const own = {
    mtu: nic?.mtu ?? 0,
    ...nicFactsOf(nic),
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

/** What the device opens, where the network's plugin made it: nothing of it is ours. */
function foundLinksOf(iface: WiredIface, sources: LinkSources): LinkFacts {
  const { links } = sources;
  const names = namesOf(iface.name, iface.podInterfaceName);
  const nic = findByName(links, names.podInterfaceName);
  const tapName = moduleOf(iface).tapOf(names, new Set(links.map(({ name }) => name)));
  const tap = findByName(links, tapName);
  const own = {
    mtu: tap?.mtu ?? 0,
    ...nicFactsOf(nic),
    tapName,
    ...(tap?.takesQueues === undefined ? {} : { takesQueues: tap.takesQueues }),
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

/** A hook knows what the device hangs on, and nobody else. */
function hookLinksOf({ podInterfaceName }: WiredIface, { links }: LinkSources): LinkFacts {
  const nic = findByName(links, podInterfaceName);
  const seen = { podInterface: nic !== undefined, tapOpen: true, mtu: nic?.mtu ?? 0 };
  return { ...NO_LINKS, ...seen, ...nicFactsOf(nic) };
}

/** Whether the guest is held to what it may send. */
function isJudged({ iface, network, security: cluster }: WiredIface): boolean {
  if (iface === undefined || network === undefined || cluster === undefined) return false;
  return sendGuardOf({ iface, network, cluster, mac: "", addresses: [] }) !== undefined;
}

/** A socket in the place of links: nobody has it but the device, which has lost it when it was made anew. */
function socketFactsOf(iface: WiredIface, sources: LinkSources): LinkFacts {
  const seen = sources.sockets?.get(iface.podInterfaceName);
  const problem = isJudged(iface) ? PORT_SECURITY_NOT_KEPT : socketProblem(iface.attachment, seen);
  const isThere = seen?.id !== undefined && problem === undefined;
  return {
    ...NO_LINKS,
    podInterface: isThere,
    wired: isThere && seen.state === "ready",
    tapOpen: isThere && isDevices(iface, seen.id, sources),
    ...(isThere && { tapIndex: seen.id }),
    // libvirt asks for interrupt vectors where there are several, which end an emulated QEMU. Source: measured, libvirt 9.0.
    ...(sources.isEmulated === true && { takesQueues: "one" }),
    ...(problem !== undefined && { socketProblem: problem }),
  };
}

const FACTS: Readonly<Record<BindingKind, (iface: WiredIface, sources: LinkSources) => LinkFacts>> =
  {
    bridge: madeLinksOf,
    masquerade: madeLinksOf,
    managedTap: madeLinksOf,
    tap: foundLinksOf,
    vhostuser: socketFactsOf,
    hook: hookLinksOf,
  };

/** The links of an iface. */
export function linkFactsOf(iface: WiredIface, sources: LinkSources): LinkFacts {
  if (iface.podInterfaceName === "") return NO_LINKS;
  return FACTS[moduleOf(iface).kind](iface, sources);
}

/** An iface as far as its links tell of it. */
type NamedIface = Pick<WiredIface, "name" | "podInterfaceName"> & {
  readonly device?: IfaceFacts["device"];
};

/** What nobody says any more the links and the device tell: a tap without our bridge is the plugin's. */
function kindLeft(
  { name, podInterfaceName, device }: NamedIface,
  links: readonly KernelLink[],
): BindingKind {
  if (device?.speaksVhostUser === true) return "vhostuser";
  const { bridgeName, tapName } = namesOf(name, podInterfaceName);
  const [bridge, tap] = [bridgeName, tapName].map((each) => findByName(links, each));
  return tap !== undefined && bridge === undefined ? "tap" : "bridge";
}

/** How an iface is bound, or why it cannot be, and how it was then. */
export function bindingFactsOf(
  named: NamedIface,
  declared: { readonly iface?: Iface; readonly network?: Network },
  { links, bindings }: Pick<LinkSources, "links"> & { readonly bindings: BindingRegistry },
): Binding | BindingRefusal {
  const { iface, network } = declared;
  if (iface === undefined) return { kind: kindLeft(named, links) };
  const binding = bindingOf(iface, network, bindings);
  return binding.kind === "refused" ? { ...binding, left: kindLeft(named, links) } : binding;
}
