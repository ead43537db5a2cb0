// SPDX-License-Identifier: Apache-2.0
// Every reason has an entry with the next step.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DOCTOR_FIXES } from "../../packages/control-plane/core/src/doctor/reasons.ts";
import { REASONS } from "../../packages/control-plane/core/src/reasons/table.ts";

const DOCS = join(import.meta.dirname, "../../docs");

function readRows(page: string): ReadonlyMap<string, string> {
  const lines = readFileSync(join(DOCS, page), "utf8").split("\n");
  const rows = lines
    .filter((line) => line.startsWith("| "))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  return new Map(rows.map(([, first = "", second = ""]) => [first, second]));
}

test.each(Object.entries(DOCTOR_FIXES))("doctor.md has a next step for %s", (reason, fix) => {
  expect(readRows("doctor.md").get(reason)).toBe(fix);
});

const OF_IFACES = Object.entries(REASONS).filter(([, { phases }]) => !phases.startsWith("none: "));

test.each(OF_IFACES.map(([reason]) => reason))(
  "the runbook has a row for an interface that waits with %s",
  (reason) => {
    const runbook = readFileSync(join(DOCS, "runbooks/iface-stuck.md"), "utf8");
    expect(runbook).toMatch(new RegExp(`^\\|[^|]*\\b${reason}\\b[^|]*\\|`, "m"));
  },
);
