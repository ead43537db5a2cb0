// SPDX-License-Identifier: Apache-2.0
// Prints the doctor's findings about an installation, and its reports about the path of an interface's frames.
import type { DoctorReport, HopName, HopReport, HopState } from "@patchbay/core/doctor";
import type { Finding, Verdict } from "../doctor/finding.ts";
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

/** Returns the text for a hop. If `label` is set, the text includes the label and the hop's fix. */
function printHop({ hop, name, state, why, fix }: HopReport, label: string | undefined): string {
  const link = name === undefined ? "" : `${escapeLine(name)}: `;
  const line = `  ${MARKS[state]} ${NAMES[hop].padEnd(COLUMNS)}  ${link}${indentLines(why, HANGING_INDENT)}\n`;
  return label === undefined || fix === undefined
    ? line
    : `${line}${HANGING_INDENT}${label}: ${indentLines(fix, `${HANGING_INDENT}     `)}\n`;
}

function printReport({ interface: iface, hops, firstDead }: DoctorReport): string {
  const labelFor = ({ hop, state }: HopReport): string | undefined => {
    if (hop === firstDead) return "fix";
    return state === "unknown" && firstDead === undefined ? "try" : undefined;
  };
  const lines = hops.map((hop) => printHop(hop, labelFor(hop)));
  return `interface ${escapeLine(iface)}\n${lines.join("")}`;
}

export function printDoctorReports(reports: readonly DoctorReport[]): string {
  return reports.map(printReport).join("\n");
}

const VERDICT_MARKS: Readonly<Record<Verdict, string>> = {
  ok: "ok",
  warning: "warn",
  wrong: "WRONG",
  unknown: "?",
};
const VERDICT_COLUMNS = Math.max(...Object.values(VERDICT_MARKS).map((mark) => mark.length));
const FINDING_INDENT = " ".repeat(VERDICT_COLUMNS + 2);

function printFinding({ check, verdict, message, fix }: Finding): string {
  const mark = VERDICT_MARKS[verdict].padEnd(VERDICT_COLUMNS);
  const line = `${mark}  ${indentLines(`${check}: ${message}`, FINDING_INDENT)}\n`;
  return fix === undefined
    ? line
    : `${line}${FINDING_INDENT}fix: ${indentLines(fix, `${FINDING_INDENT}     `)}\n`;
}

export function printFindings(findings: readonly Finding[]): string {
  return findings.map(printFinding).join("");
}
