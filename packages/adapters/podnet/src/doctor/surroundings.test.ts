// SPDX-License-Identifier: Apache-2.0
// What of a printed ruleset can drop frames of a path.
import { expect, test } from "vitest";
import { mentionsSource, parseFilters, parsePacketFilters } from "./surroundings.ts";

function table(name: string, hook: string, rule: string): string {
  return `table ${name} {\n\tchain c {\n\t\ttype filter hook ${hook}; policy accept;\n\t\t${rule}\n\t}\n}\n`;
}

test.each([
  {
    name: "a bridge rule that drops",
    text: table("bridge filter", "forward priority filter", "ip saddr 10.9.0.1 drop"),
    want: [{ command: "nft list chain bridge filter c" }],
  },
  {
    name: "a netdev rule that drops",
    text: table("netdev x", 'ingress device "veth1" priority 0', "drop"),
    want: [{ link: "veth1", command: "nft list chain netdev x c" }],
  },
  {
    name: "not a rule that accepts",
    text: table("bridge filter", "forward priority 0", "accept"),
    want: [],
  },
  {
    name: "not Patchbay's own rules",
    text: table("netdev patchbay-tap1", 'ingress device "tap1"', "drop"),
    want: [],
  },
  { name: "not IP rules", text: table("ip filter", "forward priority 0", "drop"), want: [] },
])("finds filters: $name", ({ text, want }) => {
  expect(parseFilters(text)).toEqual(want);
});

const ENDS = { links: ["pod1", "k6t-1"], guest: "10.0.2.2" };

test.each([
  { rule: "drop", want: true },
  { rule: "counter drop", want: true },
  { rule: 'iifname "k6t-1" oifname "pod1" drop', want: true },
  { rule: "ip daddr 10.0.2.2 counter drop", want: true },
  { rule: 'iifname "eth7" drop', want: false },
  { rule: "ip saddr 10.0.2.3 drop", want: false },
  { rule: "ct state invalid drop", want: false },
  { rule: 'iifname "k6t-1" tcp dport 25 drop', want: false },
  { rule: "tcp dport 80 accept\n\t\tdrop", want: false },
  { rule: "jump other\n\t\tdrop", want: false },
])("a rule of another program drops all of the guest's packets: $rule: $want", ({ rule, want }) => {
  const command = "nft list chain ip filter c";
  expect(parsePacketFilters(table("ip filter", "forward priority filter", rule), ENDS)).toEqual([
    { command, dropsAll: want },
  ]);
});

test.each([
  { name: "rules that accept", text: table("ip x", "forward priority 0", "accept") },
  { name: "rules for the pod itself", text: table("ip x", "input priority 0", "drop") },
  { name: "bridge rules", text: table("bridge x", "forward priority 0", "drop") },
  { name: "Patchbay's own rules", text: table("inet patchbay-pod1", "forward priority 0", "drop") },
])("no packet filters: $name", ({ text }) => {
  expect(parsePacketFilters(text, ENDS)).toEqual([]);
});

test("a chain with the policy drop and no rule that accepts drops all packets", () => {
  const text = table("ip x", "forward priority 0", "counter").replace("accept", "drop");
  expect(parsePacketFilters(text, ENDS)).toMatchObject([{ dropsAll: true }]);
});

test.each([
  { rule: "ip saddr 10.9.0.0/24 masquerade", want: true },
  { rule: "ip saddr 10.9.0.1 jump CNI-1", want: true },
  { rule: "ip saddr 10.8.0.0/24 masquerade", want: false },
  { rule: "ip daddr 10.9.0.1 dnat to 10.0.0.1", want: false },
])("rule mentions packets from 10.9.0.1: $rule: $want", ({ rule, want }) => {
  expect(mentionsSource(rule, "10.9.0.1")).toBe(want);
});
