// SPDX-License-Identifier: Apache-2.0
// The public door of domain.
export type { ControllerDefinition, DiskDefinition } from "./definition/disk.ts";
export type { DomainDefinition } from "./definition/domain.ts";
export type { NicDefinition } from "./definition/nic.ts";
export { machineFamilyOf } from "./machine.ts";
export { findNicModel } from "./nic-model.ts";
export { parsePciAddress, printPciAddress, type PciAddress } from "./pci/address.ts";
export { countPorts, freeAddresses, spareVectors } from "./pci/capacity.ts";
export { vectorsOf } from "./pci/interrupts.ts";
export { layoutOf, TOPOLOGY_VERSION, type FixedDevice } from "./pci/layouts.ts";
export {
  planTopology,
  type DeviceToPlace,
  type NicToPlace,
  type PlannedTopology,
  type Topology,
  type TopologyProblem,
} from "./pci/topology.ts";
// What reads XML has a door of its own: its libraries take programs 10 MB that read none.
export type { DomainChange } from "./overlay/lay-over.ts";
export type { DomainFacts, NicFacts } from "./xml/parse.ts";
export { printDomain, printNic } from "./xml/print/domain.ts";
