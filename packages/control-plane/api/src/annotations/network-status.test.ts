// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  parseNetworkStatus,
  printNetworkStatus,
  sanitizeNetworkStatus,
  type NetworkStatus,
  parseVhostUserInfo,
  parseAttachmentErrors,
  printAttachmentErrors,
  parseCniGateways,
  printCniGateways,
} from "./network-status.ts";

const ENTRIES: readonly NetworkStatus[] = [
  { name: "cbr0", interface: "eth0", ips: ["10.0.0.5"], default: true },
  { name: "default/blue", interface: "net1", mac: "02:00:00:00:00:01" },
];

test("round-trips the network status", () => {
  expect(parseNetworkStatus(printNetworkStatus(ENTRIES))).toEqual(ENTRIES);
  expect(printNetworkStatus([])).toBe("[]");
});

describe("ignores unreadable entries", () => {
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

describe("a sanitized entry contains", () => {
  test.each([
    { name: "all valid fields", given: ENTRIES[0], want: ENTRIES[0] },
    {
      name: "no invalid address",
      given: { ips: ["10.0.0.5", "\u001b]0;x\u0007", 7, "fe80::1"] },
      want: { ips: ["10.0.0.5", "fe80::1"] },
    },
    { name: "no invalid address list", given: { ips: 5 }, want: {} },
    { name: "no invalid MAC", given: { mac: "\u001b[2J" }, want: {} },
    { name: "no invalid link name", given: { interface: "net1\n" }, want: {} },
    { name: "no device information that is only text", given: { "device-info": "x" }, want: {} },
    {
      name: "device information unchanged",
      given: { "device-info": { type: "pci" } },
      want: { "device-info": { type: "pci" } },
    },
    { name: "no default flag that is only text", given: { default: "true" }, want: {} },
    {
      name: "the network's name servers",
      given: { dns: { nameservers: ["1.2.3.4"], search: ["corp.example"] } },
      want: { dns: { nameservers: ["1.2.3.4"], search: ["corp.example"] } },
    },
    { name: "no DNS settings that are only text", given: { dns: "1.2.3.4" }, want: {} },
  ])("$name", ({ given: input, want }) => {
    const [entry = { name: "" }] = parseNetworkStatus(JSON.stringify([{ name: "a/b", ...input }]));
    expect(sanitizeNetworkStatus(entry)).toEqual({ name: "a/b", ...want });
  });
});

const INFO = { mode: "client", path: "/run/s" };

test.each<{ name: string; told: unknown; want: ReturnType<typeof parseVhostUserInfo> }>([
  {
    name: "a socket",
    told: { type: "vhost-user", version: "1.1.0", "vhost-user": INFO },
    want: INFO,
  },
  {
    name: "a missing vhost-user section",
    told: { type: "vhost-user" },
    want: { mode: "", path: "" },
  },
  {
    name: "fields of the wrong types",
    told: { type: "vhost-user", "vhost-user": { mode: 1, path: ["/"] } },
    want: { mode: "", path: "" },
  },
  { name: "a different device type", told: { type: "pci", "vhost-user": INFO }, want: undefined },
  { name: "nothing", told: undefined, want: undefined },
  { name: "only a string", told: "vhost-user", want: undefined },
])("parses device information with $name", ({ told: reported, want }) => {
  expect(parseVhostUserInfo(reported)).toEqual(want);
});

const BLUE = { reason: "NetworkNotFound", message: "there is no such network" };
const GREEN = { reason: "CniFailed", message: "the plugin said no" };

test("sorts errors by NIC and round-trips them", () => {
  const text = printAttachmentErrors(
    new Map([
      ["podb", BLUE],
      ["podc", BLUE],
      ["poda", GREEN],
    ]),
  );
  expect(text).toBe(
    `{"poda":${JSON.stringify(GREEN)},"podb":${JSON.stringify(BLUE)},"podc":${JSON.stringify(BLUE)}}`,
  );
  expect(parseAttachmentErrors(text)).toEqual({ poda: GREEN, podb: BLUE, podc: BLUE });
});

test("removes the annotation when nothing fails", () => {
  expect(printAttachmentErrors(new Map())).toBeUndefined();
});

describe("ignores unreadable values", () => {
  test.each([
    { text: undefined, errors: {} },
    { text: "", errors: {} },
    { text: "{", errors: {} },
    { text: "null", errors: {} },
    { text: JSON.stringify([BLUE]), errors: {} },
    {
      text: JSON.stringify({
        poda: BLUE,
        podb: "no",
        podc: null,
        podd: { reason: "Why" },
        pode: { message: "so" },
        podf: { reason: 1, message: "so" },
        podg: { reason: "Why", message: 1 },
      }),
      errors: { poda: BLUE },
    },
  ])("$text", ({ text, errors }) => {
    expect(parseAttachmentErrors(text)).toEqual(errors);
  });
});

test("round-trips gateways, sorted by NIC and without empty lists", () => {
  const text = printCniGateways({ pod2: ["fd00::1"], pod1: ["10.9.0.254"], pod3: [] });
  expect(text).toBe('{"pod1":["10.9.0.254"],"pod2":["fd00::1"]}');
  expect(parseCniGateways(text)).toEqual({ pod1: ["10.9.0.254"], pod2: ["fd00::1"] });
  expect(printCniGateways({ pod3: [] })).toBeUndefined();
});

test.each([
  { text: undefined, want: {} },
  { text: "[", want: {} },
  { text: '["10.9.0.254"]', want: {} },
  { text: '{"pod1":"10.9.0.254","pod2":[]}', want: {} },
  { text: '{"pod1":["\\u001b[2J",7,"10.9.0.254"]}', want: { pod1: ["10.9.0.254"] } },
])("reads only valid gateways of $text", ({ text, want }) => {
  expect(parseCniGateways(text)).toEqual(want);
});
