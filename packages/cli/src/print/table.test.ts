// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { printPairs, printTable } from "./table.ts";

describe("printTable", () => {
  test("aligns columns and prints a dash for empty cells", () => {
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

describe("printPairs", () => {
  test("aligns pairs and omits those without a value", () => {
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
