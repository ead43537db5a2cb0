// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LineSplitter } from "./watch-connection.ts";

describe("splitting lines", () => {
  test("returns the same lines for any split of the bytes", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "ü", "€", "😀", " b", "\n") });
    fc.assert(
      fc.property(text, fc.array(fc.nat(200)), (whole, cuts) => {
        const bytes = Buffer.from(`${whole}\n`);
        const splitter = new LineSplitter();
        const places = [...cuts.map((cut) => cut % bytes.length), bytes.length].sort(
          (a, b) => a - b,
        );
        const lines: string[] = [];
        let start = 0;
        for (const end of places) {
          lines.push(...splitter.push(bytes.subarray(start, end)));
          start = end;
        }
        const want = whole.split("\n").map((line) => line.trimEnd());
        expect(lines).toEqual(want.filter((line) => line !== ""));
        expect(splitter.hasPending).toBe(false);
      }),
    );
  });

  test("reports an unfinished line", () => {
    const splitter = new LineSplitter();
    expect(splitter.push(Buffer.from("one\ntw"))).toEqual(["one"]);
    expect(splitter.hasPending).toBe(true);
  });

  test("rejects an endless line", () => {
    const splitter = new LineSplitter();
    const chunk = Buffer.alloc(8 * 1024 * 1024, "x");
    for (let i = 0; i < 4; i += 1) splitter.push(chunk);
    expect(() => splitter.push(chunk)).toThrow(RangeError);
  });
});
