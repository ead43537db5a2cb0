// SPDX-License-Identifier: Apache-2.0
// Compares our behavior with each row of the table of Multus, its dynamic networks controller and CNI.
import { expect, test } from "vitest";
import { LIBRARY_ROWS } from "./library.ts";
import { VERDICTS } from "./ours.ts";
import { PLUGIN_ROWS } from "./plugins.ts";
import { POD_AREAS, POD_ROWS } from "./pod.ts";
import { readRows, type Fields, type Judge, type Row } from "./rows.ts";

const ROWS = readRows();
const JUDGES: Readonly<Record<string, Judge>> = { ...POD_ROWS, ...LIBRARY_ROWS, ...PLUGIN_ROWS };

function judgeOf({ area, name }: Row): Judge {
  const judge = JUDGES[name] ?? POD_AREAS[area];
  if (judge === undefined) throw new Error(`nobody judges "${name}"`);
  return judge;
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null ? (value as Fields) : undefined;
}

/** The row's expectation. Where peers differ, Multus counts; the fact of a rejection counts, not its text. */
function summarize({ expected }: Row): Fields {
  const output = fieldsOf(expected["multus"]) ?? expected;
  return "reject" in output ? { reject: true } : output;
}

/** The compared fields of the summary, without notes and fields that only a peer has. */
function pick(output: Fields, observed: Fields): Fields {
  return Object.fromEntries(Object.entries(output).filter(([key]) => key in observed));
}

const reported = ROWS.map((row) => {
  const verdict = VERDICTS[row.name];
  if (verdict === undefined) return { row, title: row.name };
  const note = "notBuilt" in verdict ? `not built: ${verdict.notBuilt}` : `ours: ${verdict.why}`;
  return { row, verdict, title: `${row.name} (${note})` };
});

test.each(reported.filter(({ verdict }) => verdict === undefined || "ours" in verdict))(
  "$row.area: $title",
  async ({ row, verdict }) => {
    const observed = await judgeOf(row)(row);
    expect(Object.keys(observed)).not.toEqual([]);
    const ours = verdict !== undefined && "ours" in verdict ? verdict.ours : undefined;
    expect(observed).toEqual(ours ?? pick(summarize(row), observed));
  },
);

test.each(reported.filter(({ verdict }) => verdict !== undefined && "notBuilt" in verdict))(
  "$row.area: $title",
  ({ row }) => {
    // A judged row is supported and belongs above.
    expect(Object.keys(JUDGES)).not.toContain(row.name);
  },
);

test("contains every row once and no verdict without a row", () => {
  const names = ROWS.map(({ name }) => name);
  expect(new Set(names).size).toBe(93);
  expect(names).toHaveLength(93);
  const others = [...Object.keys(VERDICTS), ...Object.keys(JUDGES)];
  expect(others.filter((name) => !names.includes(name))).toEqual([]);
});
