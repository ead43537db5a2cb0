// SPDX-License-Identifier: Apache-2.0
// Text of the doctor's findings.
import type { Finding, Verdict } from "../doctor/finding.ts";
import { indented } from "./safe.ts";

const MARKS: Readonly<Record<Verdict, string>> = {
  ok: "ok",
  warning: "warn",
  wrong: "WRONG",
  unknown: "?",
};
const MARK_COLUMNS = Math.max(...Object.values(MARKS).map((mark) => mark.length));
const HANGING = " ".repeat(MARK_COLUMNS + 2);

function printFinding({ check, verdict, says, fix }: Finding): string {
  const mark = MARKS[verdict].padEnd(MARK_COLUMNS);
  const line = `${mark}  ${indented(`${check}: ${says}`, HANGING)}\n`;
  return fix === undefined ? line : `${line}${HANGING}fix: ${indented(fix, `${HANGING}     `)}\n`;
}

/** One line for each finding, and below each fault what to do. */
export function printFindings(findings: readonly Finding[]): string {
  return findings.map(printFinding).join("");
}
