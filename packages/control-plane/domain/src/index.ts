// SPDX-License-Identifier: Apache-2.0
export type {
  ControllerDefinition,
  DiskDefinition,
  DomainDefinition,
  NicDefinition,
} from "./definition.ts";
export {
  findMachineFamily,
  parsePciAddress,
  printPciAddress,
  type PciAddress,
} from "./pci/addresses.ts";
export { planKubeVirtLayout, type KubeVirtLayout } from "./pci/kubevirt-layout.ts";
export { findNicModel, countVectors } from "./pci/interrupts.ts";
export { countPorts, freeAddresses, spareVectors } from "./pci/capacity.ts";
export {
  findLayout,
  TOPOLOGY_VERSION,
  type FixedDevice,
  planTopology,
  type UnplacedDevice,
  type UnplacedNic,
  type PlannedTopology,
  type Topology,
  type TopologyProblem,
} from "./pci/topology.ts";
// The XML parsers are not exported here, because they need 10 MB of memory. Programs import them separately.
export type { DomainChange } from "./overlay/index.ts";
export type { DomainFacts, NicFacts } from "./xml/parse.ts";
export { printDomain, printNic } from "./xml/print/domain.ts";
