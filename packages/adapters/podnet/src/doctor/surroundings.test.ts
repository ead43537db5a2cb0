// SPDX-License-Identifier: Apache-2.0
// What of a printed ruleset can drop frames of a path.
import { expect, test } from "vitest";
import { mentionsSource, parseFilters } from "./surroundings.ts";

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

test.each([
  { rule: "ip saddr 10.9.0.0/24 masquerade", want: true },
  { rule: "ip saddr 10.9.0.1 jump CNI-1", want: true },
  { rule: "ip saddr 10.8.0.0/24 masquerade", want: false },
  { rule: "ip daddr 10.9.0.1 dnat to 10.0.0.1", want: false },
])("rule mentions packets from 10.9.0.1: $rule: $want", ({ rule, want }) => {
  expect(mentionsSource(rule, "10.9.0.1")).toBe(want);
});
