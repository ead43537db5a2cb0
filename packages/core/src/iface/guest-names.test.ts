// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { guestNamesByMac, nextAskInMs } from "./guest-names.ts";

const MAC = "02:00:00:00:00:01";

describe("the guest's name of a NIC is", () => {
  test.each([
    { name: "what the agent says", nics: [{ name: "enp2s0", mac: MAC }], want: "enp2s0" },
    {
      name: "the same for a MAC in capitals",
      nics: [{ name: "Ethernet 2", mac: "02:00:00:00:00:01".toUpperCase() }],
      want: "Ethernet 2",
    },
    {
      name: "that of the NIC, not of what is built on it",
      nics: [
        { name: "eth0", mac: MAC },
        { name: "eth0.100", mac: MAC },
      ],
      want: "eth0",
    },
    { name: "unknown when it is empty", nics: [{ name: "", mac: MAC }], want: undefined },
    { name: "unknown when it is endless", nics: [{ name: "e".repeat(256), mac: MAC }] },
    {
      name: "unknown when it would write over a terminal",
      nics: [{ name: "e\u001b[2J", mac: MAC }],
    },
    { name: "unknown when it would turn text around", nics: [{ name: "e\u202e0hte", mac: MAC }] },
    { name: "unknown without a MAC", nics: [{ name: "lo", mac: "" }] },
    { name: "safe from names of JavaScript", nics: [{ name: "x", mac: "__proto__" }] },
  ])("$name", ({ nics, want }) => {
    expect(guestNamesByMac(nics).get(MAC)).toBe(want);
  });
});

test.each([
  { changedAgoMs: 0, asks: 0, want: 500 },
  { changedAgoMs: 400, asks: 0, want: 100 },
  { changedAgoMs: 900, asks: 0, want: 0 },
  { changedAgoMs: 900, asks: 1, want: 2_100 },
  { changedAgoMs: 100_000, asks: 3, want: 0 },
  { changedAgoMs: 100_000, asks: 4, want: undefined },
])("$changedAgoMs ms after a change and $asks questions the next is due in $want", (row) => {
  expect(nextAskInMs(row.changedAgoMs, row.asks)).toBe(row.want);
});
