// SPDX-License-Identifier: Apache-2.0
// Brings together what is known of each iface of one VMI on its node.
import type { BindingRegistry, ClusterSecurity, VirtualMachineInstance } from "@patchbay/api";
import { printPciAddress, type NicFacts } from "@patchbay/domain";
import type { RememberedAddresses } from "../addresses/lease.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";
import type { GuestView } from "../guest/view.ts";
import { carrierOf, type Carrier } from "./carrier.ts";
import type { DeviceTaps } from "./links/device-taps.ts";
import type { DeviceFacts, GuestNicFacts, IfaceFacts, LinkFacts } from "./facts.ts";
import { bindingFactsOf, linkFactsOf, type KernelLink } from "./links/link-facts.ts";
import type { SeenSocket } from "./links/vhost-socket.ts";
import { madeTapOf, nameOfAlias, namesOf } from "./names.ts";
import { moduleOf, onSwap, type WiredIface } from "./links/wiring.ts";

/** Where the facts come from. */
export interface IfaceSources {
  readonly vmi: VirtualMachineInstance;
  readonly links: readonly KernelLink[];
  /** What lies where sockets are named, by the NIC in the pod; absent: no iface speaks vhost-user. */
  readonly sockets?: ReadonlyMap<string, SeenSocket>;
  /** Whether the guest runs under software emulation; absent: it does not. */
  readonly isEmulated?: boolean;
  /** NICs of the live domain. */
  readonly nics: readonly NicFacts[];
  /** What the guest says of its links. */
  readonly guest: GuestView;
  /** What the cluster has registered. */
  readonly bindings: BindingRegistry;
  /** What it says of what guests may send; absent: nothing. */
  readonly security?: ClusterSecurity;
  /** With which taps devices were seen before; absent: nothing is remembered. */
  readonly deviceTaps?: DeviceTaps;
  /** What was taken from NICs of this pod. */
  readonly remembered?: readonly RememberedAddresses[];
  /** The guest runs; absent: it does not, or nobody has looked. */
  readonly isRunning?: boolean;
  /** The guest is to come to this node; absent: it is here, or nowhere. */
  readonly awaitedIn?: string;
  /** Neither links nor domain could be seen. */
  readonly isBlind?: true;
}

/** A NIC that was made anew under its name has nothing to do with what was taken from the one before. */
function rememberedOf(
  podInterfaceName: string,
  { links, remembered = [] }: IfaceSources,
): RememberedAddresses | undefined {
  const nic = findByName(links, podInterfaceName);
  return remembered.find(
    (row) => row.podInterfaceName === podInterfaceName && row.index === nic?.index,
  );
}

function guestFactsOf({ mac }: NicFacts, { guest }: IfaceSources): GuestNicFacts | undefined {
  const link = guest.nics.get(mac);
  if (link === undefined) return undefined;
  const { name, ipv4, ipv6 } = link;
  return {
    ...(name === undefined ? {} : { name }),
    ...(ipv4.value === undefined ? {} : { ipv4: ipv4.value }),
    ...(ipv6.value === undefined ? {} : { ipv6: ipv6.value }),
  };
}

function deviceFactsOf(name: string, sources: IfaceSources): DeviceFacts | undefined {
  const nic = sources.nics.find(({ alias }) => nameOfAlias(alias) === name);
  if (nic === undefined) return undefined;
  const guest = guestFactsOf(nic, sources);
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

/** Every iface that anybody knows of: those of the spec in its order, then what is left of others, by name. */
function allNames({ vmi, nics }: IfaceSources): readonly string[] {
  const declared = ifacesOf(vmi.spec).map(({ name }) => name);
  const others = [
    ...(vmi.status?.attachments ?? []).map(({ name }) => name),
    ...(vmi.status?.interfaces ?? []).flatMap(({ name }) => name ?? []),
    ...nics.flatMap(({ alias }) => nameOfAlias(alias) ?? []),
  ].sort();
  return [...new Set([...declared, ...others])];
}

/** Where the iface hangs; what cannot be seen is as it was reported last. */
function carrierIn(name: string, sources: IfaceSources): Carrier {
  const { vmi, links, nics, isBlind = false } = sources;
  const nic = nics.find(({ alias }) => nameOfAlias(alias) === name);
  const reported = findByName(vmi.status?.interfaces, name);
  const others = reported?.otherPodInterfaceNames ?? [];
  const seen = {
    hasDevice: isBlind ? reported?.queueCount !== undefined : nic !== undefined,
    hasLink: (link: string): boolean =>
      isBlind
        ? others.some((other) => namesOf(name, other).bridgeName === link)
        : findByName(links, link) !== undefined,
  };
  const bridgeOfTap = (podInterfaceName: string): string | undefined =>
    findByName(links, madeTapOf(name, podInterfaceName))?.master;
  return carrierOf(name, { vmi, deviceTap: nic?.tapName, bridgeOfTap, ...seen });
}

/** What is known of an iface but for its links. */
type Known = Omit<IfaceFacts, "links" | "swap">;

function swapFactsOf(
  known: Known,
  { swap }: Carrier,
  look: {
    readonly linksOf: (iface: WiredIface) => LinkFacts;
    readonly sources: IfaceSources;
  },
): Pick<IfaceFacts, "swap"> {
  if (swap === undefined || !moduleOf(known).live.network) return {};
  const remembered = rememberedOf(swap.podInterfaceName, look.sources);
  const there = { ...swap, ...(remembered === undefined ? {} : { remembered }) };
  return { swap: { ...there, links: look.linksOf(onSwap({ ...known, swap: there })) } };
}

function guestsFacts(
  { kind }: IfaceFacts["binding"],
  { isRunning = false, awaitedIn }: IfaceSources,
): Pick<IfaceFacts, "madeByHook" | "awaitedIn"> {
  return {
    ...(kind === "hook" && isRunning && { madeByHook: true }),
    ...(awaitedIn !== undefined && { awaitedIn }),
  };
}

function factsOf(name: string, sources: IfaceSources): IfaceFacts {
  const { vmi } = sources;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  const carrier = carrierIn(name, sources);
  const { podInterfaceName, attachment, left } = carrier;
  const device = deviceFactsOf(name, sources);
  const reported = findByName(vmi.status?.interfaces, name);
  const declared = {
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
  };
  const named = { name, podInterfaceName };
  const remembered = rememberedOf(named.podInterfaceName, sources);
  const binding = bindingFactsOf({ ...named, device }, declared, sources);
  const known = {
    ...named,
    ...declared,
    binding,
    ...guestsFacts(binding, sources),
    ...(sources.security === undefined ? {} : { security: sources.security }),
    ...(attachment === undefined ? {} : { attachment }),
    ...(device === undefined ? {} : { device }),
    ...(reported === undefined ? {} : { reported }),
    ...(remembered === undefined ? {} : { remembered }),
    ...(left.length === 0 ? {} : { left }),
  };
  const linksOf = (wired: WiredIface): LinkFacts => linkFactsOf(wired, sources);
  return { ...known, links: linksOf(known), ...swapFactsOf(known, carrier, { linksOf, sources }) };
}

/** The facts of each iface; that it is wired, the pod network has to say: `withWired`. */
export function collectIfaceFacts(sources: IfaceSources): readonly IfaceFacts[] {
  return allNames(sources).map((name) => factsOf(name, sources));
}
