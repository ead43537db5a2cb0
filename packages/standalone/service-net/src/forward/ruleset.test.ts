// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Forward } from "./forwards.ts";
import {
  countElements,
  listEntries,
  onlyRemovals,
  printChanges,
  printRemoval,
  printReset,
  printTable,
  type ServiceChange,
} from "./ruleset.ts";

const SETTINGS = {
  table: "t",
  serviceNetwork: "10.96.0.0/16",
  dns: "10.96.0.10",
  podNetwork: "10.88.0.0/24",
  bridge: "br0",
};
const CLUSTER_IP: Forward = {
  name: "blue/web:80/tcp",
  protocol: "tcp",
  address: "10.96.0.5",
  port: 80,
  endpoints: ["10.88.0.5 . 8080", "10.88.0.6 . 8080"],
  isSticky: false,
};
const WEB: Forward = { ...CLUSTER_IP, nodePort: 30_080 };
const DNS: Forward = {
  name: "blue/dns:53/udp",
  protocol: "udp",
  address: "10.96.0.6",
  port: 53,
  endpoints: ["10.88.0.7 . 53"],
  isSticky: true,
};

const SERVICES = "10.96.0.5 . tcp . 80";

function lines(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "");
}

function aChange(before: readonly Forward[], after: readonly Forward[]): ServiceChange {
  return {
    service: "blue/web",
    before: before.flatMap(listEntries),
    after: after.flatMap(listEntries),
  };
}

function changed(before: readonly Forward[], after: readonly Forward[]): readonly string[] {
  return lines(printChanges(SETTINGS, [aChange(before, after)]));
}

function chainLines(name: string, key: string, index: string): readonly string[] {
  return [
    `add chain ip t ${name}`,
    `flush chain ip t ${name}`,
    `add rule ip t ${name} meta mark set meta mark | 0x1000`,
    `add rule ip t ${name} dnat ip addr . port to ${key} . ${index}`,
  ];
}

const RANDOM_1 = chainLines(
  "tcp-random-1",
  "ip daddr . tcp dport",
  "numgen random mod 1 map @tcp-endpoints",
);
const RANDOM_2 = chainLines(
  "tcp-random-2",
  "ip daddr . tcp dport",
  "numgen random mod 2 map @tcp-endpoints",
);
const NODE_RANDOM_1 = chainLines(
  "tcp-node-random-1",
  "tcp dport",
  "numgen random mod 1 map @tcp-node-endpoints",
);
const NODE_RANDOM_2 = chainLines(
  "tcp-node-random-2",
  "tcp dport",
  "numgen random mod 2 map @tcp-node-endpoints",
);
const STICKY_1 = chainLines(
  "udp-sticky-1",
  "ip daddr . udp dport",
  "jhash ip saddr mod 1 seed 0x1 map @udp-endpoints",
);

test("a table without Services rejects connections to their addresses", () => {
  const endpointMaps = [
    ["tcp-endpoints", "ip daddr . tcp dport", "tcp"],
    ["tcp-node-endpoints", "tcp dport", "tcp"],
    ["udp-endpoints", "ip daddr . udp dport", "udp"],
    ["udp-node-endpoints", "udp dport", "udp"],
  ].flatMap(([name = "", key = "", protocol = ""]) => [
    `map ${name} {`,
    `typeof ${key} . numgen random mod 2 : ip daddr . ${protocol} dport`,
    "}",
  ]);
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
    ...endpointMaps,
    "chain services {",
    "ip daddr . meta l4proto . th dport vmap @addresses",
    "}",
    "chain local {",
    "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports",
    "}",
    "chain prerouting {",
    "type nat hook prerouting priority dstnat - 1; policy accept;",
    "jump services",
    "fib daddr type local socket transparent { 0, 1 } return",
    "jump local",
    "}",
    "chain output {",
    "type nat hook output priority -101; policy accept;",
    "jump services",
    "jump local",
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
    ...["tcp", "udp", "service"].flatMap((protocol) => [
      `set ${protocol}-clients {`,
      "typeof ip saddr",
      "size 65536",
      "flags dynamic,timeout",
      "timeout 10s",
      "}",
    ]),
    "chain enter {",
    "type filter hook input priority filter; policy accept;",
    'ip daddr 10.96.0.10 iifname != { "lo", "br0" } ct direction original drop',
    "ip daddr 10.96.0.10 tcp dport 53 ct state new update @tcp-clients { ip saddr limit rate over 30/second burst 200 packets } drop",
    "ip daddr 10.96.0.10 udp dport 53 update @udp-clients { ip saddr limit rate over 300/second burst 1000 packets } drop",
    "}",
    "}",
  ]);
});

test("a table limits the connections of each address to the machine's services", () => {
  const before = lines(printTable(SETTINGS, []));
  const after = lines(printTable({ ...SETTINGS, limitedPorts: [6443, 6444] }, []));
  expect(after.filter((line) => !before.includes(line))).toEqual([
    "ip saddr != 127.0.0.1 tcp dport { 6443, 6444 } ct state new update @service-clients { ip saddr limit rate over 30/second burst 150 packets } drop",
  ]);
});

test("a table has elements for each address, port and endpoint, and a chain for each choice", () => {
  const change = aChange([], [WEB, DNS]);
  const text = lines(printTable(SETTINGS, [change]));
  expect(text.slice(lines(printTable(SETTINGS, [])).length)).toEqual([
    ...RANDOM_2,
    ...NODE_RANDOM_2,
    ...STICKY_1,
    "add element ip t tcp-endpoints { 10.96.0.5 . 80 . 0 : 10.88.0.5 . 8080, 10.96.0.5 . 80 . 1 : 10.88.0.6 . 8080 }",
    "add element ip t tcp-node-endpoints { 30080 . 0 : 10.88.0.5 . 8080, 30080 . 1 : 10.88.0.6 . 8080 }",
    "add element ip t udp-endpoints { 10.96.0.6 . 53 . 0 : 10.88.0.7 . 53 }",
    `add element ip t addresses { ${SERVICES} comment "blue/web:80/tcp" : goto tcp-random-2, 10.96.0.6 . udp . 53 comment "blue/dns:53/udp" : goto udp-sticky-1 }`,
    'add element ip t node-ports { tcp . 30080 comment "blue/web:80/tcp" : goto tcp-node-random-2 }',
  ]);
  expect(countElements(change)).toBe(8);
});

test("changes nothing for equal Services", () => {
  expect(changed([WEB, DNS], [WEB, DNS])).toEqual([]);
});

test("cuts long comments, which nft would reject", () => {
  const name = `${"n".repeat(63)}/${"s".repeat(63)}:80/tcp`;
  const text = changed([], [{ ...DNS, name: `${name}${"x".repeat(40)}` }]).join("\n");
  expect(/"(.*)"/.exec(text)?.[1]).toHaveLength(128);
});

test("another endpoint of the same index changes only its elements", () => {
  const other = { ...WEB, endpoints: ["10.88.0.5 . 8080", "10.88.0.9 . 8080"] };
  expect(changed([WEB], [other])).toEqual([
    "delete element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 }",
    "delete element ip t tcp-node-endpoints { 30080 . 1 }",
    ...RANDOM_2,
    ...NODE_RANDOM_2,
    "add element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 : 10.88.0.9 . 8080 }",
    "add element ip t tcp-node-endpoints { 30080 . 1 : 10.88.0.9 . 8080 }",
  ]);
});

test("another number of endpoints selects another chain", () => {
  expect(changed([CLUSTER_IP], [{ ...CLUSTER_IP, endpoints: ["10.88.0.5 . 8080"] }])).toEqual([
    `delete element ip t addresses { ${SERVICES} }`,
    "delete element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 }",
    ...RANDOM_1,
    `add element ip t addresses { ${SERVICES} comment "blue/web:80/tcp" : goto tcp-random-1 }`,
  ]);
});

test("another node port changes only elements of node ports", () => {
  const one = { ...WEB, endpoints: ["10.88.0.5 . 8080"] };
  expect(changed([one], [{ ...one, nodePort: 30_081 }])).toEqual([
    "delete element ip t node-ports { tcp . 30080 }",
    "delete element ip t tcp-node-endpoints { 30080 . 0 }",
    ...RANDOM_1,
    ...NODE_RANDOM_1,
    "add element ip t tcp-node-endpoints { 30081 . 0 : 10.88.0.5 . 8080 }",
    'add element ip t node-ports { tcp . 30081 comment "blue/web:80/tcp" : goto tcp-node-random-1 }',
  ]);
});

test("a removed forward leaves no elements", () => {
  expect(changed([WEB, DNS], [WEB])).toEqual([
    "delete element ip t addresses { 10.96.0.6 . udp . 53 }",
    "delete element ip t udp-endpoints { 10.96.0.6 . 53 . 0 }",
    ...RANDOM_2,
    ...NODE_RANDOM_2,
  ]);
});

test("the removals of a change retain entries that also exist after it, unchanged", () => {
  const sticky = { ...WEB, isSticky: true, nodePort: 30_081 };
  const [address, nodePort] = listEntries(WEB);
  const change = aChange([WEB, DNS], [sticky]);
  expect(nodePort?.key).toBe("tcp . 30080");
  expect(onlyRemovals(change)).toEqual({ ...change, after: [address] });
});

test("a reset adds the previous elements before it deletes them, because they may be missing", () => {
  expect(lines(printReset(SETTINGS, aChange([DNS], [])))).toEqual([
    ...STICKY_1,
    "add element ip t udp-endpoints { 10.96.0.6 . 53 . 0 : 10.88.0.7 . 53 }",
    'add element ip t addresses { 10.96.0.6 . udp . 53 comment "blue/dns:53/udp" : goto udp-sticky-1 }',
    "delete element ip t addresses { 10.96.0.6 . udp . 53 }",
    "delete element ip t udp-endpoints { 10.96.0.6 . 53 . 0 }",
  ]);
});

test("a missing table can be removed", () => {
  expect(printRemoval("t")).toBe("table ip t\ndelete table ip t\n");
});

const forwards = fc
  .uniqueArray(
    fc.record({
      number: fc.integer({ min: 1, max: 6 }),
      count: fc.integer({ min: 1, max: 3 }),
      isSticky: fc.boolean(),
    }),
    { maxLength: 6, selector: ({ number }) => number },
  )
  .map((rows) =>
    rows.map(({ number, count, isSticky }): Forward => ({
      ...WEB,
      name: `blue/s:${String(number)}/tcp`,
      port: number,
      nodePort: 30_000 + number,
      isSticky,
      endpoints: Array.from({ length: count }, (_none, index) => `10.88.0.${String(index)} . 1`),
    })),
  );

/** Elements of the maps after the commands; a delete of a missing element and an add of another value throw, as in the kernel. */
function applyTo(elements: Map<string, string>, text: string): void {
  for (const line of lines(text)) {
    const [, verb, map = "", list = ""] =
      /^(add|delete) element ip t (\S+) \{ (.*) \}$/.exec(line) ?? [];
    for (const element of verb === undefined ? [] : list.split(", ")) {
      const [key = "", value = ""] = element.replace(/ comment "[^"]*"/, "").split(" : ");
      const id = `${map} ${key}`;
      const known = elements.get(id);
      if (verb === "delete" && !elements.delete(id)) throw new Error(`missing ${id}`);
      if (verb === "add" && known !== undefined && known !== value) throw new Error(`exists ${id}`);
      if (verb === "add") elements.set(id, value);
    }
  }
}

function write(...changes: readonly ServiceChange[]): Map<string, string> {
  const elements = new Map<string, string>();
  for (const change of changes) applyTo(elements, printChanges(SETTINGS, [change]));
  return elements;
}

test("a change yields the same elements as a new table, also in two steps", () => {
  fc.assert(
    fc.property(forwards, forwards, (before, after) => {
      const change = aChange(before, after);
      const removals = onlyRemovals(change);
      const first = aChange([], before);
      const want = write(aChange([], after));
      expect(write(first, change)).toEqual(want);
      expect(write(first, removals, { ...change, before: removals.after })).toEqual(want);
      const reset = write(first);
      applyTo(reset, printReset(SETTINGS, change));
      expect(reset).toEqual(want);
    }),
  );
});
