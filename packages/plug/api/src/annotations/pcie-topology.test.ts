// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parsePcieTopology, printPcieTopology } from "./pcie-topology.ts";

const TOPOLOGY = { version: 2, interfaces: [{ name: "blue", pciAddress: "0000:02:00.0" }] };

test.each([TOPOLOGY, { version: 1, interfaces: [] }])("is written and read again", (topology) => {
  expect(parsePcieTopology(printPcieTopology(topology))).toEqual(topology);
});

describe("what cannot be read says of no place", () => {
  const entries = (...interfaces: readonly unknown[]): string =>
    JSON.stringify({ version: 2, interfaces });

  test.each([
    undefined,
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"version":"2","interfaces":[]}',
    '{"version":2}',
    '{"version":2,"interfaces":{}}',
    entries(null),
    entries("blue"),
    entries({ name: "blue" }),
    entries({ pciAddress: "0000:02:00.0" }),
    entries({ name: 1, pciAddress: "0000:02:00.0" }),
    entries({ name: "blue", pciAddress: 2 }),
    entries(...TOPOLOGY.interfaces, {}),
  ])("%s", (text) => {
    expect(parsePcieTopology(text)).toBeUndefined();
  });
});
