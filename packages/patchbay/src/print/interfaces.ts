// SPDX-License-Identifier: Apache-2.0
// How does the list of a VM's interfaces look?
import {
  addressesOf,
  macOf,
  networkOf,
  phaseOfRow,
  podInterfaceOf,
  reasonOf,
  type IfaceRow,
} from "./iface-rows.ts";
import { printTable } from "./table.ts";

const HEADERS = ["NAME", "NETWORK", "PHASE", "REASON", "MAC", "IPS", "POD NIC", "PCI"];

/** The list for people. */
export function printInterfaces(rows: readonly IfaceRow[], isRunning: boolean): string {
  if (rows.length === 0) return "no interfaces\n";
  return printTable(
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
    ]),
  );
}
