// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Forward } from "./forwards.ts";
import { printChanges, printRemoval, printTable } from "./ruleset.ts";

const SETTINGS = {
  table: "t",
  serviceNetwork: "10.96.0.0/16",
  dns: "10.96.0.10",
  podNetwork: "10.88.0.0/24",
  bridge: "br0",
};
const WEB: Forward = {
  name: "blue/web:80/tcp",
  protocol: "tcp",
  address: "10.96.0.5",
  port: 80,
  nodePort: 30_080,
  endpoints: ["10.88.0.5 . 8080", "10.88.0.6 . 8080"],
  isSticky: false,
};
const DNS: Forward = {
  name: "blue/dns:53/udp",
  protocol: "udp",
  address: "10.96.0.6",
  port: 53,
  endpoints: ["10.88.0.7 . 53"],
  isSticky: true,
};
/** Name of its chain. */
const CHAIN = /service-[0-9a-f]{16}/g;

function lines(text: string): readonly string[] {
  return text
    .replaceAll(CHAIN, "CHAIN")
    .split("\n")
    .filter((line) => line !== "");
}

test("a table has a way in for each address and port, and chooses among endpoints", () => {
  const text = lines(printTable(SETTINGS, [WEB, DNS]));
  expect(text.slice(0, 3)).toEqual(["table ip t", "delete table ip t", "table ip t {"]);
  expect(text).toContain(
    "elements = { 10.96.0.5 . tcp . 80 : goto CHAIN, 10.96.0.6 . udp . 53 : goto CHAIN }",
  );
  expect(text).toContain("elements = { tcp . 30080 : goto CHAIN }");
  expect(text).toContain(
    "meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : 10.88.0.5 . 8080, 1 : 10.88.0.6 . 8080 }",
  );
  expect(text).toContain(
    "meta l4proto udp dnat ip addr . port to jhash ip saddr mod 1 seed 0x1 map { 0 : 10.88.0.7 . 53 }",
  );
});

test("a table without Services refuses what is sent to their addresses", () => {
  expect(lines(printTable(SETTINGS, []))).toEqual([
    "table ip t",
    "delete table ip t",
    "table ip t {",
    "map addresses {",
    "type ipv4_addr . inet_proto . inet_service : verdict",
    "}",
    "map node-ports {",
    "type inet_proto . inet_service : verdict",
    "}",
    "chain services {",
    "ip daddr . meta l4proto . th dport vmap @addresses",
    "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports",
    "}",
    "chain prerouting {",
    "type nat hook prerouting priority dstnat - 1; policy accept;",
    "jump services",
    "}",
    "chain output {",
    "type nat hook output priority -101; policy accept;",
    "jump services",
    "}",
    "chain postrouting {",
    "type nat hook postrouting priority srcnat - 1; policy accept;",
    "meta mark & 0x1000 == 0x0 return",
    "meta mark set meta mark ^ 0x1000",
    "ct original ip daddr != 10.96.0.0/16 ip daddr 10.88.0.0/24 ip saddr != 10.88.0.0/24 fib saddr type != local return",
    "masquerade",
    "}",
    "chain unanswered {",
    "ip daddr != 10.96.0.0/16 return",
    "ip daddr 10.96.0.10 return",
    "meta l4proto tcp reject with tcp reset",
    "reject",
    "}",
    "chain forward {",
    "type filter hook forward priority filter; policy accept;",
    "jump unanswered",
    "}",
    "chain leave {",
    "type filter hook output priority filter; policy accept;",
    "jump unanswered",
    "}",
    "chain enter {",
    "type filter hook input priority filter; policy accept;",
    'ip daddr 10.96.0.10 iifname != { "lo", "br0" } ct direction original drop',
    "}",
    "}",
  ]);
});

test("nothing changes where nothing has changed", () => {
  expect(printChanges(SETTINGS, [WEB, DNS], [WEB, DNS])).toBe("");
});

test("another endpoint changes one chain, and no other entry", () => {
  const after = { ...WEB, endpoints: ["10.88.0.6 . 8080"] };
  expect(lines(printChanges(SETTINGS, [WEB, DNS], [after, DNS]))).toEqual([
    "add chain ip t CHAIN",
    "flush chain ip t CHAIN",
    'add rule ip t CHAIN meta mark set meta mark | 0x1000 comment "blue/web:80/tcp"',
    "add rule ip t CHAIN meta l4proto tcp dnat ip addr . port to numgen random mod 1 map { 0 : 10.88.0.6 . 8080 }",
  ]);
});

test("another port of the node changes its ways in, and no chain", () => {
  expect(lines(printChanges(SETTINGS, [WEB], [{ ...WEB, nodePort: 30_081 }]))).toEqual([
    "delete element ip t addresses { 10.96.0.5 . tcp . 80 }",
    "delete element ip t node-ports { tcp . 30080 }",
    "add element ip t addresses { 10.96.0.5 . tcp . 80 : goto CHAIN }",
    "add element ip t node-ports { tcp . 30081 : goto CHAIN }",
  ]);
});

test("another address changes its ways in, and no chain", () => {
  expect(lines(printChanges(SETTINGS, [DNS], [{ ...DNS, address: "10.96.0.7" }]))).toEqual([
    "delete element ip t addresses { 10.96.0.6 . udp . 53 }",
    "add element ip t addresses { 10.96.0.7 . udp . 53 : goto CHAIN }",
  ]);
});

test("what goes, goes with its ways in first", () => {
  expect(lines(printChanges(SETTINGS, [WEB, DNS], [WEB]))).toEqual([
    "delete element ip t addresses { 10.96.0.6 . udp . 53 }",
    "flush chain ip t CHAIN",
    "delete chain ip t CHAIN",
  ]);
});

test("a table that is not there can be removed", () => {
  expect(printRemoval("t")).toBe("table ip t\ndelete table ip t\n");
});

const forwards = fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 6 }).chain((numbers) =>
  fc.tuple(
    ...numbers.map((number) =>
      fc.constant({
        ...WEB,
        name: `blue/s:${String(number)}/tcp`,
        port: number,
        nodePort: 30_000 + number,
      }),
    ),
  ),
);

test("a change deletes only existing elements, and adds only new elements", () => {
  fc.assert(
    fc.property(forwards, forwards, (before, after) => {
      const text = printChanges(SETTINGS, before, after);
      for (const [, verb = "", port = ""] of text.matchAll(
        /^(add|delete) element ip t addresses \{ \S+ \. tcp \. (\d+)/gm,
      )) {
        const list = verb === "delete" ? before : after;
        const other = verb === "delete" ? after : before;
        const has = (all: readonly Forward[]): boolean =>
          all.some((one) => one.port === Number(port));
        expect([has(list), has(other)]).toEqual([true, false]);
      }
    }),
  );
});
