// SPDX-License-Identifier: Apache-2.0
// Brings together what is known of each iface of one VMI on its node.
import type { IfaceStatus, VirtualMachineInstance } from "@patchbay/api";
import { printPciAddress, type NicFacts } from "@patchbay/domain";
import type { DeviceFacts, IfaceFacts, LinkFacts } from "./facts.ts";
import { NO_LINKS } from "./facts.ts";
import { DEFAULT_POD_INTERFACE, namesOf, podInterfaceNameOf, type Sha256Hex } from "./names.ts";
import { findByName, ifacesOf, networksOf } from "./specs.ts";

/** A link as the kernel has it. */
export interface KernelLink {
  readonly name: string;
  readonly up: boolean;
  /** Bytes. */
  readonly mtu: number;
  readonly master?: string;
}

/** Where the facts come from. */
export interface IfaceSources {
  readonly vmi: VirtualMachineInstance;
  readonly links: readonly KernelLink[];
  /** NICs of the live domain. */
  readonly nics: readonly NicFacts[];
  /** What the guest calls its NICs, by MAC. */
  readonly guestNames: ReadonlyMap<string, string>;
}

const ALIAS_PREFIX = "ua-";

function nameOfAlias(alias: string): string | undefined {
  return alias.startsWith(ALIAS_PREFIX) ? alias.slice(ALIAS_PREFIX.length) : undefined;
}

/** The inverse of the tap's name. */
function podInterfaceOfTap(tapName: string): string {
  return tapName === "tap0" ? DEFAULT_POD_INTERFACE : `pod${tapName.slice("tap".length)}`;
}

/** NIC in the pod, by the first source that knows the iface; what is done keeps the name that it was done with. */
function podInterfaceOf(name: string, sources: IfaceSources, sha256Hex: Sha256Hex): string {
  const { vmi, nics } = sources;
  const known =
    findByName(vmi.status?.attachments, name)?.podInterfaceName ??
    findByName(vmi.status?.interfaces, name)?.podInterfaceName;
  if (known !== undefined) return known;
  const network = findByName(networksOf(vmi.spec), name);
  if (network !== undefined) return podInterfaceNameOf(network, sha256Hex);
  const tapName = nics.find((nic) => nameOfAlias(nic.alias) === name)?.tapName;
  return tapName === undefined ? "" : podInterfaceOfTap(tapName);
}

function linkFactsOf(
  name: string,
  podInterfaceName: string,
  links: readonly KernelLink[],
): LinkFacts {
  if (podInterfaceName === "") return NO_LINKS;
  const { bridgeName, tapName } = namesOf(name, podInterfaceName);
  const nic = findByName(links, podInterfaceName);
  const bridge = findByName(links, bridgeName);
  const tap = findByName(links, tapName);
  const isPort = (link: KernelLink | undefined): boolean =>
    link?.up === true && link.master === bridgeName;
  return {
    podInterface: nic !== undefined,
    bridge: bridge !== undefined,
    tap: tap !== undefined,
    wired: bridge?.up === true && isPort(nic) && isPort(tap),
    mtu: nic?.mtu ?? 0,
  };
}

/** What the guest says; while it says nothing, what it said of the same device before. */
function guestNameOf(
  nic: NicFacts,
  reported: IfaceStatus | undefined,
  { guestNames }: IfaceSources,
): string | undefined {
  return (
    guestNames.get(nic.mac) ?? (reported?.mac === nic.mac ? reported.interfaceName : undefined)
  );
}

function deviceFactsOf(name: string, sources: IfaceSources): DeviceFacts | undefined {
  const nic = sources.nics.find(({ alias }) => nameOfAlias(alias) === name);
  if (nic === undefined) return undefined;
  const reported = findByName(sources.vmi.status?.interfaces, name);
  const guestName = guestNameOf(nic, reported, sources);
  return {
    alias: nic.alias,
    mac: nic.mac,
    linkUp: nic.linkUp,
    queues: nic.queues,
    ...(nic.pciAddress === undefined ? {} : { pciAddress: printPciAddress(nic.pciAddress) }),
    ...(guestName === undefined ? {} : { guestName }),
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

/** The facts of each iface. */
export function collectIfaceFacts(
  sources: IfaceSources,
  sha256Hex: Sha256Hex,
): readonly IfaceFacts[] {
  const { vmi, links } = sources;
  return allNames(sources).map((name) => {
    const podInterfaceName = podInterfaceOf(name, sources, sha256Hex);
    const iface = findByName(ifacesOf(vmi.spec), name);
    const network = findByName(networksOf(vmi.spec), name);
    const attachment = findByName(vmi.status?.attachments, name);
    const device = deviceFactsOf(name, sources);
    const reported = findByName(vmi.status?.interfaces, name);
    return {
      name,
      podInterfaceName,
      links: linkFactsOf(name, podInterfaceName, links),
      ...(iface === undefined ? {} : { iface }),
      ...(network === undefined ? {} : { network }),
      ...(attachment === undefined ? {} : { attachment }),
      ...(device === undefined ? {} : { device }),
      ...(reported === undefined ? {} : { reported }),
    };
  });
}
