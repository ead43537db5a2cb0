// SPDX-License-Identifier: Apache-2.0
// Prints the text of `patchbay get interfaces`.
import {
  addressesOf,
  isLive,
  linkOf,
  macOf,
  networkOf,
  phaseOfRow,
  podInterfaceOf,
  reasonOf,
  type IfaceRow,
} from "./iface-rows.ts";
import type { VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { printTable } from "./table.ts";

type Cell = string | undefined;

const HEADERS = [
  "NAME",
  "NETWORK",
  "PHASE",
  "REASON",
  "LINK",
  "MAC",
  "IPS",
  "POD NIC",
  "PCI",
  "IN GUEST",
];

function printPorts(ports: VmiStatus["pciePorts"]): string {
  if (ports === undefined) return "";
  return `PCIe ports for more: ${String(ports.free)} of ${String(ports.total)} free\n`;
}

function cellsOf(row: IfaceRow, vmi: VirtualMachineInstance | undefined): readonly Cell[] {
  const isRunning = isLive(vmi);
  return [
    row.name,
    networkOf(row),
    phaseOfRow(row, isRunning),
    reasonOf(row),
    linkOf(row, isRunning),
    macOf(row),
    addressesOf(row),
    podInterfaceOf(row),
    row.status?.pciAddress,
    row.status?.interfaceName,
  ];
}

export function printInterfaces(
  rows: readonly IfaceRow[],
  vmi: VirtualMachineInstance | undefined,
): string {
  const ports = printPorts(vmi?.status?.pciePorts);
  if (rows.length === 0) return `no interfaces\n${ports}`;
  const table = printTable(
    HEADERS,
    rows.map((row) => cellsOf(row, vmi)),
  );
  return `${table}${ports}`;
}

export interface VmInterfaces {
  readonly vm: string;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly rows: readonly IfaceRow[];
}

export function printInterfacesOfAll(vms: readonly VmInterfaces[]): string {
  const rows = vms.flatMap(({ vm, vmi, rows: own }) =>
    own.map((row) => [vm, ...cellsOf(row, vmi)]),
  );
  return rows.length === 0 ? "no interfaces\n" : printTable(["VM", ...HEADERS], rows);
}
