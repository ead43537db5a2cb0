// SPDX-License-Identifier: Apache-2.0
// Finds interfaces for which a running VM has no free PCIe port, and chooses PCI addresses for plugged NICs.
import {
  isAbsent,
  type BindingRegistry,
  type Iface,
  type VirtualMachineInstance,
  type VmiSpec,
  type NetworkConfig,
} from "@patchbay/api";
import { isSecondary } from "@patchbay/api/validate";
import {
  findNicModel,
  findMachineFamily,
  freeAddresses,
  printPciAddress,
  spareVectors,
  countVectors,
  type DomainFacts,
  type PciAddress,
} from "@patchbay/domain";
import { canBind } from "../bindings/resolve-binding.ts";
import {
  modelNeedsIoPorts,
  noFreePortMessage,
  type ReasonMessage,
} from "../../reasons/messages.ts";
import { buildMachine } from "../../vm/spec/machine.ts";
import { findByName, ifacesOf, networksOf } from "../nics.ts";
import type { IfaceFacts } from "../facts.ts";
import type { Reason } from "../../reasons/table.ts";
import { readRecordedNicAddresses } from "./devices.ts";
import { readRequestedAddress, findModelName, countQueues } from "./topology.ts";

interface PortReservations {
  readonly total: number;
  readonly free: number;
  /** Names of interfaces that wait for a device. Interfaces with an attachment in the pod come first. */
  readonly reserved: readonly string[];
}

export type PortProblem = ReasonMessage<"NoFreePciePort" | "ModelNeedsIoPorts">;

function hasDevice(vmi: VirtualMachineInstance, iface: Iface): boolean {
  return findByName(vmi.status?.interfaces, iface.name)?.pciAddress !== undefined;
}

function listWithoutDevice(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): readonly Iface[] {
  return ifacesOf(spec).filter(
    (iface) =>
      !isAbsent(iface) &&
      canBind(spec, iface, registry) &&
      isSecondary(iface, networksOf(spec)) &&
      !hasDevice(vmi, iface),
  );
}

export function reservePorts(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): PortReservations | undefined {
  const ports = vmi.status?.pciePorts;
  if (ports === undefined) return undefined;
  const waiting = listWithoutDevice(vmi, spec, registry).filter(
    (iface) => findIoPortProblem(vmi, iface) === undefined,
  );
  const hasAttachment = ({ name }: Iface): boolean =>
    findByName(vmi.status?.attachments, name) !== undefined;
  const reserved = [
    ...waiting.filter(hasAttachment),
    ...waiting.filter((iface) => !hasAttachment(iface)),
  ];
  return { ...ports, reserved: reserved.map(({ name }) => name) };
}

export function findIfacesWithoutPort(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): ReadonlyMap<string, PortProblem> {
  const ports = reservePorts(vmi, spec, registry);
  if (ports === undefined) return new Map();
  const unfitIfaces = listWithoutDevice(vmi, spec, registry).flatMap(
    (iface): readonly [string, PortProblem][] => {
      const problem = findIoPortProblem(vmi, iface);
      return problem === undefined ? [] : [[iface.name, problem]];
    },
  );
  const excess = ports.reserved.slice(ports.free);
  const problem = noFreePortMessage(vmi);
  return new Map([...unfitIfaces, ...excess.map((name): [string, PortProblem] => [name, problem])]);
}

/** Returns why the NIC's model cannot be plugged into the running VM; undefined if it can, or if the VM does not run. */
export function findIoPortProblem(
  vmi: VirtualMachineInstance,
  iface: Iface | undefined,
): ReasonMessage<"ModelNeedsIoPorts"> | undefined {
  const model = iface?.model ?? "";
  const hasSlots = findMachineFamily(buildMachine(vmi.spec.domain)) === "pc";
  const canPlug = hasSlots || findNicModel(model)?.needsIoPorts !== true;
  return canPlug || vmi.status?.pciePorts === undefined ? undefined : modelNeedsIoPorts(model);
}

export interface NicPlacement {
  readonly pciAddress: PciAddress;
  readonly queues: number;
}

export type PlacementProblem = Extract<
  Reason,
  "NoFreePciePort" | "PciAddressInUse" | "ModelNeedsIoPorts"
>;

/** Facts for assigning PCI addresses. `ifaces` includes interfaces without a device, because addresses may be reserved for them. */
interface LivePlacementFacts {
  readonly vmi: VirtualMachineInstance;
  readonly network: NetworkConfig;
  readonly ifaces: readonly IfaceFacts[];
}

type RecordedAddresses = ReadonlyMap<string, PciAddress>;

function findPreferredAddress(
  { name, iface }: IfaceFacts,
  recorded: RecordedAddresses,
): PciAddress | undefined {
  return readRequestedAddress(iface) ?? recorded.get(name);
}

/** Maps each reserved address to the interface for which it is reserved. Requested addresses take precedence over recorded ones. */
function reserveAddresses(
  facts: LivePlacementFacts,
  recorded: RecordedAddresses,
): Map<string, string> {
  const waiting = facts.ifaces.filter(({ device }) => device === undefined);
  const requestsAddress = ({ iface }: IfaceFacts): boolean =>
    readRequestedAddress(iface) !== undefined;
  const byPriority = [...waiting.filter(requestsAddress), ...waiting];
  return new Map(
    // The interface with precedence comes last, because a Map retains the last entry of a key.
    byPriority.toReversed().flatMap((iface) => {
      const preferred = findPreferredAddress(iface, recorded);
      return preferred === undefined ? [] : [[printPciAddress(preferred), iface.name] as const];
    }),
  );
}

/** Returns why no free address suits the NIC. On q35, no PCIe port accepts a hotplugged NIC whose model needs x86 I/O ports. */
function findPortProblem(domain: DomainFacts, model: string): PlacementProblem {
  const needsIoPorts = findNicModel(model)?.needsIoPorts === true;
  return needsIoPorts && domain.family === "q35" ? "ModelNeedsIoPorts" : "NoFreePciePort";
}

function chooseAddress(
  iface: IfaceFacts,
  recorded: RecordedAddresses,
  free: readonly PciAddress[],
): PciAddress | undefined {
  const preferred = findPreferredAddress(iface, recorded);
  const printed = preferred === undefined ? "" : printPciAddress(preferred);
  const match = free.find((address) => printPciAddress(address) === printed);
  return match ?? (readRequestedAddress(iface.iface) === undefined ? free[0] : undefined);
}

function findPlacementProblem(
  iface: IfaceFacts,
  domain: DomainFacts,
  model: string,
): PlacementProblem {
  return readRequestedAddress(iface.iface) === undefined
    ? findPortProblem(domain, model)
    : "PciAddressInUse";
}

/**
 * Assigns PCI addresses to `newcomers` in order. A NIC with a requested address gets this address or none. Any other NIC gets its recorded
 * address if free, otherwise the first free address. A NIC that needs more interrupt vectors than the guest has left gets no address.
 */
export function planLivePlacements(
  facts: LivePlacementFacts,
  domain: DomainFacts,
  newcomers: readonly IfaceFacts[],
): ReadonlyMap<string, NicPlacement | PlacementProblem> {
  const placements = new Map<string, NicPlacement | PlacementProblem>();
  if (newcomers.length === 0) return placements;
  const recorded = readRecordedNicAddresses(facts.vmi);
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
      placements.set(name, findPlacementProblem(iface, domain, nic.model));
      continue;
    }
    vectors -= needed;
    reserved.set(printPciAddress(address), name);
    placements.set(name, { pciAddress: address, queues: nic.queues });
  }
  return placements;
}
