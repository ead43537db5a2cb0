// SPDX-License-Identifier: Apache-2.0
// Which places in a running domain its new NICs get.
import type { NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import {
  findNicModel,
  freeAddresses,
  printPciAddress,
  spareVectors,
  vectorsOf,
  type DomainFacts,
  type PciAddress,
} from "@patchbay/domain";
import type { IfaceFacts } from "../iface/facts.ts";
import type { Reason } from "../reasons/table.ts";
import { keptAddresses } from "./devices.ts";
import { askedAddress, modelOf, queuesOf } from "./topology.ts";

/** Where a NIC goes, and how many pairs of queues it has. */
export interface NicPlace {
  readonly pciAddress: PciAddress;
  readonly queues: number;
}

/** Why a NIC gets no place in a running domain; nothing was tried. */
export type NoPlace = Extract<Reason, "NoFreePciePort" | "PciAddressInUse" | "ModelNeedsIoPorts">;

/** The VMI whose domain it is, with all its ifaces: those that have no device yet may have been promised a place. */
interface LivePlaceFacts {
  readonly vmi: VirtualMachineInstance;
  readonly network: NetworkConfig;
  readonly ifaces: readonly IfaceFacts[];
}

/** Where devices were at the last start, by name of the iface. */
type Kept = ReadonlyMap<string, PciAddress>;

/** The address that an iface asks for, or had before. */
function preferredAddress({ name, iface }: IfaceFacts, kept: Kept): PciAddress | undefined {
  return askedAddress(iface) ?? kept.get(name);
}

/**
 * Whose the addresses are that nobody else may take: by printed address, name of the iface. Who asks for an address goes
 * before who had it, and the first before those after it.
 */
function promisedAddresses(facts: LivePlaceFacts, kept: Kept): Map<string, string> {
  const waiting = facts.ifaces.filter(({ device }) => device === undefined);
  const asks = ({ iface }: IfaceFacts): boolean => askedAddress(iface) !== undefined;
  const byRight = [...waiting.filter(asks), ...waiting];
  return new Map(
    // Of entries with one key the last stays.
    byRight.toReversed().flatMap((iface) => {
      const preferred = preferredAddress(iface, kept);
      return preferred === undefined ? [] : [[printPciAddress(preferred), iface.name] as const];
    }),
  );
}

/** Why none is chosen. A model that needs I/O ports finds no place on a q35, however many ports are free. */
function noPlaceFor(domain: DomainFacts, model: string): NoPlace {
  const needsIoPorts = findNicModel(model)?.needsIoPorts === true;
  return needsIoPorts && domain.family === "q35" ? "ModelNeedsIoPorts" : "NoFreePciePort";
}

function chooseAddress(
  iface: IfaceFacts,
  kept: Kept,
  free: readonly PciAddress[],
): PciAddress | undefined {
  const preferred = preferredAddress(iface, kept);
  const printed = preferred === undefined ? "" : printPciAddress(preferred);
  const granted = free.find((address) => printPciAddress(address) === printed);
  return granted ?? (askedAddress(iface.iface) === undefined ? free[0] : undefined);
}

function reasonAgainst(iface: IfaceFacts, domain: DomainFacts, model: string): NoPlace {
  return askedAddress(iface.iface) === undefined ? noPlaceFor(domain, model) : "PciAddressInUse";
}

/**
 * Places for `newcomers`, in their order: the one that an iface asks for, the one that it had, else the best free one,
 * as long as the guest has interrupt vectors.
 */
export function planLivePlaces(
  facts: LivePlaceFacts,
  domain: DomainFacts,
  newcomers: readonly IfaceFacts[],
): ReadonlyMap<string, NicPlace | NoPlace> {
  const places = new Map<string, NicPlace | NoPlace>();
  // At rest nothing is read for it.
  if (newcomers.length === 0) return places;
  const kept = keptAddresses(facts.vmi);
  const promised = promisedAddresses(facts, kept);
  let vectors = spareVectors(domain);
  for (const iface of newcomers) {
    const { name } = iface;
    const nic = {
      model: modelOf(iface.iface),
      queues: queuesOf(facts.vmi.spec, iface.iface, facts.network),
    };
    const free = freeAddresses(domain, nic.model).filter(
      (address) => (promised.get(printPciAddress(address)) ?? name) === name,
    );
    const needed = vectorsOf(nic);
    if (needed > vectors) {
      places.set(name, "NoFreePciePort");
      continue;
    }
    const address = chooseAddress(iface, kept, free);
    if (address === undefined) {
      places.set(name, reasonAgainst(iface, domain, nic.model));
      continue;
    }
    vectors -= needed;
    promised.set(printPciAddress(address), name);
    places.set(name, { pciAddress: address, queues: nic.queues });
  }
  return places;
}
