// SPDX-License-Identifier: Apache-2.0
import { expect, test, describe } from "vitest";
import {
  parsePreferredIps,
  parseRetainedAddresses,
  printRetainedAddresses,
  parsePcieTopology,
  printPcieTopology,
} from "./restart-state.ts";

const BLUE = { name: "blue1", networkName: "ns1/blue", ips: ["10.0.0.5", "fd00::5"] };

test("round-trips retained addresses", () => {
  expect(parseRetainedAddresses(printRetainedAddresses([BLUE]))).toEqual([BLUE]);
});

test.each([
  { name: "nothing", text: undefined, want: [] },
  { name: "invalid JSON", text: "[", want: [] },
  { name: "a value that is not a list", text: `{"name":"blue1"}`, want: [] },
  {
    name: "a list without entries",
    text: `[null, 1, {"name": 1, "networkName": "a/b"}, {"name": "a"}]`,
    want: [],
  },
  {
    name: "an entry without addresses",
    text: `[{"name":"blue1","networkName":"ns1/blue","ips":"10.0.0.5"}]`,
    want: [{ ...BLUE, ips: [] }],
  },
])("reads valid entries only from $name", ({ text, want }) => {
  expect(parseRetainedAddresses(text)).toEqual(want);
});

test.each<{ name: string; ips: unknown; want: readonly string[] }>([
  {
    name: "in normalized form",
    ips: ["FD00:0::5/64", "10.0.0.5/24"],
    want: ["fd00::5", "10.0.0.5"],
  },
  { name: "without duplicates", ips: ["fd00::5", "fd00:0::5"], want: ["fd00::5"] },
  {
    name: "without invalid addresses",
    ips: ["", 1, "10.0.0.256", "$(x)", "10.0.0.5"],
    want: ["10.0.0.5"],
  },
  { name: "not if they are not a list", ips: "10.0.0.5", want: [] },
])("reads an element's preferred addresses $name", ({ ips, want }) => {
  // As anybody may write it into a pod.
  const element = { name: "blue", "io.patchbay.kept-ips": ips as readonly string[] };
  expect(parsePreferredIps(element)).toEqual(want);
});

test("reads at most 16 preferred addresses", () => {
  const ips = Array.from({ length: 200 }, (_none, index) => `10.0.0.${String(index)}`);
  expect(parsePreferredIps({ name: "blue", "io.patchbay.kept-ips": ips })).toHaveLength(16);
  expect(parsePreferredIps(undefined)).toEqual([]);
});

const TOPOLOGY = { version: 2, interfaces: [{ name: "blue", pciAddress: "0000:02:00.0" }] };

test.each([TOPOLOGY, { version: 1, interfaces: [] }])(
  "round-trips the PCIe topology",
  (topology) => {
    expect(parsePcieTopology(printPcieTopology(topology))).toEqual(topology);
  },
);

describe("ignores unreadable entries", () => {
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
