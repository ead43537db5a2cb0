// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  parseNetworkStatus,
  printNetworkStatus,
  soundNetworkStatus,
  type NetworkStatus,
} from "./network-status.ts";

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

describe("into a status goes", () => {
  test.each([
    { name: "what is what it says", given: ENTRIES[0], want: ENTRIES[0] },
    {
      name: "no address that is none",
      given: { ips: ["10.0.0.5", "\u001b]0;x\u0007", 7, "fe80::1"] },
      want: { ips: ["10.0.0.5", "fe80::1"] },
    },
    { name: "no list that is none", given: { ips: 5 }, want: {} },
    { name: "no MAC that is none", given: { mac: "\u001b[2J" }, want: {} },
    { name: "no name that no link can have", given: { interface: "net1\n" }, want: {} },
    { name: "no device that is only text", given: { "device-info": "x" }, want: {} },
    {
      name: "a device as it is",
      given: { "device-info": { type: "pci" } },
      want: { "device-info": { type: "pci" } },
    },
    { name: "no default that is only said", given: { default: "true" }, want: {} },
    {
      name: "the name servers of the network",
      given: { dns: { nameservers: ["1.2.3.4"], search: ["corp.example"] } },
      want: { dns: { nameservers: ["1.2.3.4"], search: ["corp.example"] } },
    },
    { name: "no DNS settings that are only text", given: { dns: "1.2.3.4" }, want: {} },
  ])("$name", ({ given, want }) => {
    const [entry = { name: "" }] = parseNetworkStatus(JSON.stringify([{ name: "a/b", ...given }]));
    expect(soundNetworkStatus(entry)).toEqual({ name: "a/b", ...want });
  });
});
