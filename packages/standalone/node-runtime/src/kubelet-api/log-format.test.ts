// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LogPrinter, type LogView, parseRecord, printRecordTime } from "./log-format.ts";

const ALL: LogView = { timestamps: false };
const T0 = "2026-11-22T09:00:00.5Z";
const T1 = "2026-11-22T10:00:01.000000001+01:00";
const LOG = [
  `${T0} stdout F one`,
  `${T0} stdout P tw`,
  `${T0} stderr F error`,
  `${T1} stdout F o`,
  `${T1} stdout F `,
  `${T1} stdout F`,
  "what nobody writes",
  `${T1} stderr F:x last`,
  "",
].join("\n");

function show(view: Partial<LogView>, log: string = LOG): string {
  return new LogPrinter({ ...ALL, ...view }).push(Buffer.from(log)).toString();
}

describe("printing of a log", () => {
  test.each([
    { name: "prints all lines", view: {}, want: "one\ntwerror\no\n\n\nlast\n" },
    {
      name: "prints lines since a time in any time zone",
      view: { sinceMs: Date.parse("2026-11-22T09:00:01Z") },
      want: "o\n\n\nlast\n",
    },
    { name: "prints the first bytes", view: { limitBytes: 6 }, want: "one\ntw" },
    { name: "stops at the byte limit", view: { limitBytes: 4 }, want: "one\n" },
    {
      name: "prints timestamps once per line",
      view: { timestamps: true },
      want:
        "2026-11-22T09:00:00.500000000Z one\n" +
        "2026-11-22T09:00:00.500000000Z tw2026-11-22T09:00:00.500000000Z error\n" +
        "o\n" +
        "2026-11-22T10:00:01.000000001+01:00 \n".repeat(2) +
        "2026-11-22T10:00:01.000000001+01:00 last\n",
    },
  ])("$name", ({ view, want }) => {
    expect(show(view)).toBe(want);
  });

  test("does not depend on chunk boundaries", () => {
    const bytes = Buffer.from(LOG);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: bytes.length })), (cuts) => {
        const printer = new LogPrinter(ALL);
        const edges = [0, ...cuts.sort((one, other) => one - other), bytes.length];
        const chunks = edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
        const shown = Buffer.concat(chunks.map((chunk) => printer.push(chunk)));
        expect(shown.toString()).toBe(show({}));
      }),
    );
  });

  test("preserves bytes that are not valid text", () => {
    const bytes = Buffer.concat([Buffer.from(`${T0} stdout F `), Buffer.from([0xff, 0x00, 0x0a])]);
    expect(new LogPrinter(ALL).push(bytes)).toEqual(Buffer.from([0xff, 0x00, 0x0a]));
  });

  test("prints a line only when it is complete", () => {
    const printer = new LogPrinter(ALL);
    expect(printer.push(Buffer.from(`${T0} stdout F on`)).toString()).toBe("");
    expect(printer.push(Buffer.from("e\n")).toString()).toBe("one\n");
  });

  test("skips a line that never ends, and the incomplete end of a replaced file", () => {
    const printer = new LogPrinter(ALL);
    printer.push(Buffer.alloc(2 * 1024 * 1024, "x"));
    expect(printer.push(Buffer.from(`\n${T0} stdout F one\n${T0} stdo`)).toString()).toBe("one\n");
    printer.nextFile();
    expect(printer.push(Buffer.from(`${T0} stdout F two\n`)).toString()).toBe("two\n");
  });
});

describe("a record", () => {
  test.each(["", "x", `${T0} stdin F x`, `${T0} stdout`])("does not parse %j", (line) => {
    expect(parseRecord(Buffer.from(line))).toBeUndefined();
  });

  test.each([
    ["2026-11-22T09:00:00Z", "2026-11-22T09:00:00.000000000Z"],
    ["2026-11-22T09:00:00.12-08:00", "2026-11-22T09:00:00.120000000-08:00"],
    ["no time", "no time"],
  ])("is printed with its full time: %s", (time, want) => {
    expect(printRecordTime(time)).toBe(want);
  });
});
