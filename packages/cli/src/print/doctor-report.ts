// SPDX-License-Identifier: Apache-2.0
// Prints the doctor's report about the path of an interface's frames.
import type { DoctorReport, HopName, HopReport, HopState } from "@patchbay/core/doctor";
import { indentLines, escapeLine } from "./safe.ts";

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
  const link = name === undefined ? "" : `${escapeLine(name)}: `;
  const line = `  ${MARKS[state]} ${NAMES[hop].padEnd(COLUMNS)}  ${link}${indentLines(why, HANGING_INDENT)}\n`;
  return !isFirst || fix === undefined
    ? line
    : `${line}${HANGING_INDENT}fix: ${indentLines(fix, `${HANGING_INDENT}     `)}\n`;
}

function printReport({ interface: iface, hops, firstDead }: DoctorReport): string {
  const lines = hops.map((hop) => printHop(hop, hop.hop === firstDead));
  return `interface ${escapeLine(iface)}\n${lines.join("")}`;
}

/** Prints one line for each hop of each interface, with the fix at the first hop that loses frames. */
export function printDoctorReports(reports: readonly DoctorReport[]): string {
  return reports.map(printReport).join("\n");
}
