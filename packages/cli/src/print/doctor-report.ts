// SPDX-License-Identifier: Apache-2.0
// Prints the doctor's report about the path of an interface's frames.
import type { DoctorReport, HopName, HopReport, HopState } from "@patchbay/core/doctor";
import { indented, oneLine } from "./safe.ts";

const MARKS: Readonly<Record<HopState, string>> = {
  ok: "✓",
  dead: "✗",
  unknown: "?",
  notApplicable: "·",
};
const NAMES: Readonly<Record<HopName, string>> = {
  guest: "guest",
  device: "device",
  tap: "tap",
  podBridge: "pod bridge",
  addresses: "addresses",
  translation: "translation",
  podNic: "pod NIC",
  nodePeer: "peer on node",
  nodeBridge: "node bridge",
  uplink: "uplink",
  gateway: "gateway",
};
const COLUMNS = Math.max(...Object.values(NAMES).map(({ length }) => length));
const HANGING_INDENT = " ".repeat(COLUMNS + 6);

function printHop({ hop, name, state, why, fix }: HopReport, isFirst: boolean): string {
  const link = name === undefined ? "" : `${oneLine(name)}: `;
  const line = `  ${MARKS[state]} ${NAMES[hop].padEnd(COLUMNS)}  ${link}${indented(why, HANGING_INDENT)}\n`;
  return !isFirst || fix === undefined
    ? line
    : `${line}${HANGING_INDENT}fix: ${indented(fix, `${HANGING_INDENT}     `)}\n`;
}

function printReport({ interface: iface, hops, firstDead }: DoctorReport): string {
  const lines = hops.map((hop) => printHop(hop, hop.hop === firstDead));
  return `interface ${oneLine(iface)}\n${lines.join("")}`;
}

/** Prints one line per hop for each interface, with the fix at the first hop that loses frames. */
export function printDoctorReports(reports: readonly DoctorReport[]): string {
  return reports.map(printReport).join("\n");
}
