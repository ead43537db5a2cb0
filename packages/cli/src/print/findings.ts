// SPDX-License-Identifier: Apache-2.0
// Prints the doctor's findings.
import type { Finding, Verdict } from "../doctor/finding.ts";
import { indentLines } from "./safe.ts";

const MARKS: Readonly<Record<Verdict, string>> = {
  ok: "ok",
  warning: "warn",
  wrong: "WRONG",
  unknown: "?",
};
const MARK_COLUMNS = Math.max(...Object.values(MARKS).map((mark) => mark.length));
const HANGING_INDENT = " ".repeat(MARK_COLUMNS + 2);

function printFinding({ check, verdict, message, fix }: Finding): string {
  const mark = MARKS[verdict].padEnd(MARK_COLUMNS);
  const line = `${mark}  ${indentLines(`${check}: ${message}`, HANGING_INDENT)}\n`;
  return fix === undefined
    ? line
    : `${line}${HANGING_INDENT}fix: ${indentLines(fix, `${HANGING_INDENT}     `)}\n`;
}

export function printFindings(findings: readonly Finding[]): string {
  return findings.map(printFinding).join("");
}
