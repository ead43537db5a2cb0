// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseNetworkStatus, printNetworkStatus, type NetworkStatus } from "./network-status.ts";

const ENTRIES: readonly NetworkStatus[] = [
  { name: "cbr0", interface: "eth0", ips: ["10.0.0.5"], default: true },
  { name: "default/blue", interface: "net1", mac: "02:00:00:00:00:01" },
];

test("is written in order and read again", () => {
  expect(parseNetworkStatus(printNetworkStatus(ENTRIES))).toEqual(ENTRIES);
  expect(printNetworkStatus([])).toBe("[]");
});

describe("what cannot be read is no network", () => {
  test.each([
    { text: undefined, entries: [] },
    { text: "", entries: [] },
    { text: "[", entries: [] },
    { text: '{"name":"a"}', entries: [] },
    { text: '[null, 1, "a", [], {}, {"name":1}, {"name":"a"}]', entries: [{ name: "a" }] },
  ])("$text", ({ text, entries }) => {
    expect(parseNetworkStatus(text)).toEqual(entries);
  });
});
