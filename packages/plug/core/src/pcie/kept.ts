// SPDX-License-Identifier: Apache-2.0
// What a VMI was told of its VM's last start.
import {
  names,
  parsePcieTopology,
  type PcieTopology,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parsePciAddress, TOPOLOGY_VERSION, type PciAddress } from "@patchbay/domain";

/** What a VMI was told; undefined when it was told nothing. */
export function keptTopology(vmi: VirtualMachineInstance): PcieTopology | undefined {
  return parsePcieTopology(vmi.metadata.annotations?.[names.PCIE_TOPOLOGY_ANNOTATION]);
}

/** The version of the rules by which a VMI is laid out: that of its VM's first start. */
export function topologyVersionOf(vmi: VirtualMachineInstance): number {
  return keptTopology(vmi)?.version ?? TOPOLOGY_VERSION;
}

/** Where the NICs of a VMI were at the last start, by name of the iface. */
export function keptAddresses(vmi: VirtualMachineInstance): ReadonlyMap<string, PciAddress> {
  return new Map(
    keptTopology(vmi)?.interfaces.flatMap(({ name, pciAddress }) => {
      const address = parsePciAddress(pciAddress);
      return address === undefined ? [] : [[name, address] as const];
    }),
  );
}
