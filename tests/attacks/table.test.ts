// SPDX-License-Identifier: Apache-2.0
// Consistency of docs/reference/attacks.md and the tests.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const PAGE = join(import.meta.dirname, "../../docs/reference/attacks.md");

interface Row {
  readonly numbers: readonly number[];
  readonly outcome: string;
}

/** "14-20" and "14" as the numbers that they stand for. */
function numbersOf(text: string): readonly number[] {
  const [first = 0, last = first] = text.split("-").map(Number);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

function readRows(): readonly Row[] {
  const matches = readFileSync(PAGE, "utf8").matchAll(
    /^\| (\d+(?:-\d+)?) +\|[^|]+\|[^|]+\|([^|]+)\|$/gm,
  );
  return [...matches].map(([, numbers = "", outcome = ""]) => ({
    numbers: numbersOf(numbers),
    outcome: outcome.trim(),
  }));
}

/** Attacks that need a browser are beside the panel's tests. */
const FOLDERS = [import.meta.dirname, join(import.meta.dirname, "../browser")];

/** Numbers in test titles, which may be in a table beside the test. */
function readTested(): ReadonlySet<number> {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .map((name) => join(folder, name))
      .filter((path) => /\/(\d[^/]*\.test|[^/]*-table)\.ts$/.test(path)),
  );
  const texts = files.map((path) => readFileSync(path, "utf8"));
  // A table of attacks has the number in its rows.
  const written = texts.flatMap((text) => [
    ...text.matchAll(/["'`]attack (\d+):/g),
    ...(text.includes("attack $number:") ? text.matchAll(/\bnumber: (\d+),/g) : []),
  ]);
  return new Set(written.map(([, number]) => Number(number)));
}

const rows = readRows();
const tested = readTested();

describe("the table of attacks", () => {
  test("has each number from 1 once", () => {
    const numbers = rows.flatMap((row) => row.numbers);
    expect(numbers).toEqual(numbersOf(`1-${String(numbers.length)}`));
  });

  test("uses three outcomes and gives a reason for two", () => {
    const others = rows.filter(
      ({ outcome }) => !/^(repelled$|open: .{10}|decision: .{10})/.test(outcome),
    );
    expect(others).toEqual([]);
  });

  test("has a test for each repelled attack only", () => {
    const repelled = rows
      .filter(({ outcome }) => outcome === "repelled")
      .flatMap(({ numbers }) => numbers);
    const inOrder = [...tested].sort((left, right) => left - right);
    expect(inOrder).toEqual(repelled);
  });
});
