// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { rangeUseOf } from "./host-local.ts";

const HOST_LOCAL = { type: "host-local" };

interface Row {
  readonly name: string;
  readonly ipam: Readonly<Record<string, unknown>>;
  readonly leases?: readonly string[];
  readonly want: readonly (readonly [string, bigint, number])[];
}

const ROWS: readonly Row[] = [
  {
    name: "a subnet: not its own, its last, and its gateway's address",
    ipam: { subnet: "10.1.0.0/24" },
    leases: ["10.1.0.2", "10.1.0.254", "last_reserved_ip.0", "lock"],
    want: [["ipam", 253n, 2]],
  },
  {
    name: "the smallest subnet",
    ipam: { subnet: "10.1.0.0/30" },
    leases: ["10.1.0.2"],
    want: [["ipam", 1n, 1]],
  },
  {
    name: "a part of a subnet, without its gateway",
    ipam: { ranges: [[{ subnet: "10.1.0.0/24", rangeStart: "10.1.0.5", rangeEnd: "10.1.0.6" }]] },
    leases: ["10.1.0.5", "10.1.0.9"],
    want: [["ipam.ranges[0]", 2n, 1]],
  },
  {
    name: "a part with its gateway in it",
    ipam: {
      ranges: [
        [
          {
            subnet: "10.1.0.0/24",
            rangeStart: "10.1.0.5",
            rangeEnd: "10.1.0.6",
            gateway: "10.1.0.6",
          },
        ],
      ],
    },
    want: [["ipam.ranges[0]", 1n, 0]],
  },
  {
    name: "a part that ends before it begins",
    ipam: { subnet: "10.1.0.0/24", rangeStart: "10.1.0.9", rangeEnd: "10.1.0.5" },
    want: [["ipam", 0n, 0]],
  },
  {
    name: "two ranges that serve each other, and another set",
    ipam: {
      ranges: [[{ subnet: "10.1.0.0/30" }, { subnet: "10.2.0.0/30" }], [{ subnet: "fd00::/126" }]],
    },
    leases: ["10.2.0.2", "fd00::2", "fd00::3"],
    want: [
      ["ipam.ranges[0]", 2n, 1],
      ["ipam.ranges[1]", 2n, 2],
    ],
  },
  {
    name: "the old form beside the new one",
    ipam: { subnet: "10.1.0.0/30", ranges: [[{ subnet: "fd00::/64" }]] },
    want: [
      ["ipam", 1n, 0],
      ["ipam.ranges[0]", 2n ** 64n - 2n, 0],
    ],
  },
  { name: "no range", ipam: {}, want: [] },
  {
    name: "a subnet without room, which the plugin refuses",
    ipam: { subnet: "10.1.0.0/31" },
    want: [],
  },
  { name: "a subnet that is none", ipam: { subnet: "10.1.0/24" }, want: [] },
  { name: "a start outside", ipam: { subnet: "10.1.0.0/24", rangeStart: "10.2.0.1" }, want: [] },
  { name: "a set that is none", ipam: { ranges: ["x", [], [7]] }, want: [] },
];

describe("use of", () => {
  test.each(ROWS)("$name", ({ ipam, leases = [], want }) => {
    const seen = rangeUseOf({ ...HOST_LOCAL, ...ipam }, leases);
    expect(seen.map(({ field, size, used }) => [field, size, used])).toEqual(want);
  });
});
