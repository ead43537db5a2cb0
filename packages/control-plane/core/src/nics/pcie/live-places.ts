// SPDX-License-Identifier: Apache-2.0
// PCI addresses for NICs that are plugged into a running domain.
import type { NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import {
  findNicModel,
  freeAddresses,
  printPciAddress,
  spareVectors,
  countVectors,
  type DomainFacts,
  type PciAddress,
} from "@patchbay/domain";
import type { IfaceFacts } from "../facts.ts";
import type { Reason } from "../../reasons/table.ts";
import { recordedNicAddresses } from "./devices.ts";
import { requestedAddress, findModelName, countQueues } from "./topology.ts";

export interface NicPlacement {
  readonly pciAddress: PciAddress;
  readonly queues: number;
}

export type PlacementProblem = Extract<
  Reason,
  "NoFreePciePort" | "PciAddressInUse" | "ModelNeedsIoPorts"
>;

/** Includes interfaces without a device, because addresses may be reserved for them. */
interface LivePlacementFacts {
  readonly vmi: VirtualMachineInstance;
  readonly network: NetworkConfig;
  readonly ifaces: readonly IfaceFacts[];
}

type RecordedAddresses = ReadonlyMap<string, PciAddress>;

function preferredAddress(
  { name, iface }: IfaceFacts,
  recorded: RecordedAddresses,
): PciAddress | undefined {
  return requestedAddress(iface) ?? recorded.get(name);
}

/** Maps reserved addresses to interfaces: requested addresses first, then recorded ones, then by order. */
function reserveAddresses(
  facts: LivePlacementFacts,
  recorded: RecordedAddresses,
): Map<string, string> {
  const waiting = facts.ifaces.filter(({ device }) => device === undefined);
  const requestsAddress = ({ iface }: IfaceFacts): boolean => requestedAddress(iface) !== undefined;
  const byPriority = [...waiting.filter(requestsAddress), ...waiting];
  return new Map(
    // A Map keeps the last entry of a key.
    byPriority.toReversed().flatMap((iface) => {
      const preferred = preferredAddress(iface, recorded);
      return preferred === undefined ? [] : [[printPciAddress(preferred), iface.name] as const];
    }),
  );
}

/** A model that needs I/O ports fits no PCIe port, so free ports do not help on q35. */
function noFreeAddress(domain: DomainFacts, model: string): PlacementProblem {
  const needsIoPorts = findNicModel(model)?.needsIoPorts === true;
  return needsIoPorts && domain.family === "q35" ? "ModelNeedsIoPorts" : "NoFreePciePort";
}

function chooseAddress(
  iface: IfaceFacts,
  recorded: RecordedAddresses,
  free: readonly PciAddress[],
): PciAddress | undefined {
  const preferred = preferredAddress(iface, recorded);
  const printed = preferred === undefined ? "" : printPciAddress(preferred);
  const match = free.find((address) => printPciAddress(address) === printed);
  return match ?? (requestedAddress(iface.iface) === undefined ? free[0] : undefined);
}

function placementProblem(iface: IfaceFacts, domain: DomainFacts, model: string): PlacementProblem {
  return requestedAddress(iface.iface) === undefined
    ? noFreeAddress(domain, model)
    : "PciAddressInUse";
}

/**
 * Places `newcomers` in order: at the requested address, else at the recorded one, else at the best free one. Stops
 * placing NICs when the guest has too few interrupt vectors left.
 */
export function planLivePlacements(
  facts: LivePlacementFacts,
  domain: DomainFacts,
  newcomers: readonly IfaceFacts[],
): ReadonlyMap<string, NicPlacement | PlacementProblem> {
  const placements = new Map<string, NicPlacement | PlacementProblem>();
  if (newcomers.length === 0) return placements;
  const recorded = recordedNicAddresses(facts.vmi);
  const reserved = reserveAddresses(facts, recorded);
  let vectors = spareVectors(domain);
  for (const iface of newcomers) {
    const { name } = iface;
    const nic = {
      model: findModelName(iface.iface),
      queues: countQueues(facts.vmi.spec, iface.iface, facts.network),
    };
    const free = freeAddresses(domain, nic.model).filter(
      (address) => (reserved.get(printPciAddress(address)) ?? name) === name,
    );
    const needed = countVectors(nic);
    if (needed > vectors) {
      placements.set(name, "NoFreePciePort");
      continue;
    }
    const address = chooseAddress(iface, recorded, free);
    if (address === undefined) {
      placements.set(name, placementProblem(iface, domain, nic.model));
      continue;
    }
    vectors -= needed;
    reserved.set(printPciAddress(address), name);
    placements.set(name, { pciAddress: address, queues: nic.queues });
  }
  return placements;
}
