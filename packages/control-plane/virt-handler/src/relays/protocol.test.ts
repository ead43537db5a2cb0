// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  isPeer,
  parseGreeting,
  parseRelayMessage,
  printGreeting,
  type Greeting,
  type RelayMessage,
} from "./protocol.ts";

test.each<Greeting>([
  { migration: "m", channel: "memory" },
  { migration: "m", isGuestGone: true },
])("parses the greeting that it printed: %j", (greeting) => {
  expect(parseGreeting(printGreeting(greeting).trimEnd())).toEqual(greeting);
});

test("relays of older versions understand the report of the guest's departure", () => {
  const printed = printGreeting({ migration: "m", isGuestGone: true });
  expect(printed).toBe('{"migration":"m","says":"gone"}\n');
});

test.each([
  "",
  "GET / HTTP/1.1",
  "[]",
  '{"migration":1,"channel":"memory"}',
  '{"migration":"m","channel":"other"}',
  '{"migration":"m","says":"hello"}',
])("rejects the greeting %s", (line) => {
  expect(parseGreeting(line)).toBeUndefined();
});

test.each<RelayMessage>([
  { kind: "listening", ports: { libvirt: 40_000, disks: 40_001 } },
  { kind: "failed", reason: "r" },
  { kind: "joined", channel: "libvirt" },
  { kind: "ended", channel: "memory", reason: "r" },
  { kind: "refused", reason: "r" },
  { kind: "gone" },
  { kind: "departureConfirmed" },
  { kind: "departureUnconfirmed", reason: "r" },
])("parses the relay's message $kind", (word) => {
  expect(parseRelayMessage(word)).toEqual(word);
});

test("cuts long reasons and ignores unknown fields", () => {
  const long = { kind: "refused", reason: "x".repeat(5000) };
  expect(parseRelayMessage(long)).toEqual({ kind: "refused", reason: "x".repeat(300) });
  expect(parseRelayMessage({ kind: "listening", ports: { libvirt: "22", other: 1 } })).toEqual({
    kind: "listening",
    ports: {},
  });
  const none = [null, {}, { kind: "x" }, { kind: "joined", channel: "x" }, { kind: "ended" }];
  expect(none.map(parseRelayMessage)).toEqual(none.map(() => undefined));
});

test.each([
  { name: "the node", subject: { CN: "n", O: "patchbay.io:migration" }, want: true },
  { name: "another node", subject: { CN: "m", O: "patchbay.io:migration" }, want: false },
  { name: "a certificate for another use", subject: { CN: "n", O: "system:nodes" }, want: false },
  {
    name: "a certificate with several groups",
    subject: { CN: "n", O: ["patchbay.io:migration", "system:masters"] },
    want: false,
  },
])("$name is the peer: $want", ({ subject, want }) => {
  const whole = { C: "", ST: "", L: "", OU: "", ...subject };
  expect(isPeer({ subject: whole }, "n")).toBe(want);
});
