// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { printPairs, printTable } from "./table.ts";

describe("a table", () => {
  test("has aligned columns and a dash for what is not there", () => {
    expect(
      printTable(
        ["NAME", "PHASE"],
        [
          ["blue", "Ready"],
          ["a-long-name", undefined],
        ],
      ),
    ).toBe("NAME          PHASE\nblue          Ready\na-long-name   -\n");
  });
});

describe("pairs", () => {
  test("are aligned, and left out without a value", () => {
    expect(
      printPairs(
        [
          ["mac", "02:00"],
          ["ips", undefined],
          ["address", "x"],
        ],
        "  ",
      ),
    ).toBe("  mac:     02:00\n  address: x\n");
  });
});
