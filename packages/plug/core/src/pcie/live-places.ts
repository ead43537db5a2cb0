// SPDX-License-Identifier: Apache-2.0
// PCI addresses for NICs that are plugged into a running domain.
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

export interface NicPlace {
  readonly pciAddress: PciAddress;
  readonly queues: number;
}

/** Why a NIC cannot be placed. Nothing was attempted yet. */
export type NoPlace = Extract<Reason, "NoFreePciePort" | "PciAddressInUse" | "ModelNeedsIoPorts">;

/** Includes interfaces without a device, because addresses may be reserved for them. */
interface LivePlaceFacts {
  readonly vmi: VirtualMachineInstance;
  readonly network: NetworkConfig;
  readonly ifaces: readonly IfaceFacts[];
}

type Kept = ReadonlyMap<string, PciAddress>;

function preferredAddress({ name, iface }: IfaceFacts, kept: Kept): PciAddress | undefined {
  return askedAddress(iface) ?? kept.get(name);
}

/** Maps reserved addresses to interfaces: requested addresses first, then recorded ones, then by order. */
function promisedAddresses(facts: LivePlaceFacts, kept: Kept): Map<string, string> {
  const waiting = facts.ifaces.filter(({ device }) => device === undefined);
  const asks = ({ iface }: IfaceFacts): boolean => askedAddress(iface) !== undefined;
  const byRight = [...waiting.filter(asks), ...waiting];
  return new Map(
    // A Map keeps the last entry of a key.
    byRight.toReversed().flatMap((iface) => {
      const preferred = preferredAddress(iface, kept);
      return preferred === undefined ? [] : [[printPciAddress(preferred), iface.name] as const];
    }),
  );
}

/** A model that needs I/O ports fits no PCIe port, so free ports do not help on q35. */
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
 * Places `newcomers` in order: at the requested address, else at the recorded one, else at the best free one. Stops
 * placing NICs when the guest has too few interrupt vectors left.
 */
export function planLivePlaces(
  facts: LivePlaceFacts,
  domain: DomainFacts,
  newcomers: readonly IfaceFacts[],
): ReadonlyMap<string, NicPlace | NoPlace> {
  const places = new Map<string, NicPlace | NoPlace>();
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
