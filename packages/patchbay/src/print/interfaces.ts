// SPDX-License-Identifier: Apache-2.0
// How does the list of a VM's interfaces look?
import {
  addressesOf,
  macOf,
  isLive,
  networkOf,
  phaseOfRow,
  podInterfaceOf,
  reasonOf,
  type IfaceRow,
} from "./iface-rows.ts";
import type { VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { printTable } from "./table.ts";

const HEADERS = ["NAME", "NETWORK", "PHASE", "REASON", "MAC", "IPS", "POD NIC", "PCI", "IN GUEST"];

function printPorts(ports: VmiStatus["pciePorts"]): string {
  if (ports === undefined) return "";
  return `PCIe ports for more: ${String(ports.free)} of ${String(ports.total)} free\n`;
}

/** The list for people, and how many more interfaces the running VM can take. */
export function printInterfaces(
  rows: readonly IfaceRow[],
  vmi: VirtualMachineInstance | undefined,
): string {
  const isRunning = isLive(vmi);
  const ports = printPorts(vmi?.status?.pciePorts);
  if (rows.length === 0) return `no interfaces\n${ports}`;
  const table = printTable(
    HEADERS,
    rows.map((row) => [
      row.name,
      networkOf(row),
      phaseOfRow(row, isRunning),
      reasonOf(row),
      macOf(row),
      addressesOf(row),
      podInterfaceOf(row),
      row.status?.pciAddress,
      row.status?.interfaceName,
    ]),
  );
  return `${table}${ports}`;
}
