// SPDX-License-Identifier: Apache-2.0
// The public door of domain.
export type { DomainDefinition, MachineFamily, NicDefinition } from "./definition.ts";
export { machineFamilyOf } from "./machine.ts";
export { printPciAddress, type PciAddress } from "./pci/address.ts";
export { countPorts, freeAddresses, type PortCount } from "./pci/allocate.ts";
export {
  fixedNicAddress,
  PC_FIRST_SLOT,
  PC_LAST_SLOT,
  rootPorts,
  type RootPort,
} from "./pci/topology.ts";
export { parseDomain, type DomainFacts, type NicFacts, type ParsedDomain } from "./xml/parse.ts";
export { printDomain, printNic } from "./xml/print.ts";
