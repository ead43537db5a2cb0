// SPDX-License-Identifier: Apache-2.0
import type { BridgeWiring, MasqueradeWiring } from "@patchbay/core/nics";
import type { NicPolicy } from "@patchbay/core/policies";
import { expect, test } from "vitest";
import { buildPolicyTable } from "./policy.ts";
import { hasTable, parseRuleset, printTable, replaceTable, updateTable } from "./table.ts";

const WIRING: BridgeWiring = {
  kind: "bridge",
  podInterfaceName: "eth0",
  bridgeName: "k6t-eth0",
  tapName: "tap0",
  mac: "02:00:00:00:5e:01",
  mtu: 1500,
  owner: 107,
  queues: 1,
  replies: { addresses: ["10.9.0.1/32", "fd09::1/64"] },
};
const NAT: MasqueradeWiring = {
  ...WIRING,
  kind: "masquerade",
  ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
  ports: [],
};

function rulesOf(
  policy: NicPolicy,
  chain: string,
  wiring: BridgeWiring | MasqueradeWiring = WIRING,
) {
  return buildPolicyTable(wiring, policy).chains.find(({ name }) => name === chain)?.rules ?? [];
}

test("filters frames after the send guard, and before the rate limiter", () => {
  const text = printTable(buildPolicyTable(WIRING, {}));
  expect(text).toContain("table netdev patchbay-policy-tap0 {");
  expect(text).toContain('hook ingress device "tap0" priority filter + 5; policy drop;');
  expect(text).toContain('hook egress device "tap0" priority filter; policy drop;');
});

test("passes and remembers all packets of a direction that is not isolated", () => {
  expect(rulesOf({ ingress: [] }, "egress4")).toEqual(["goto pass4"]);
  expect(rulesOf({ ingress: [] }, "from-guest").at(-1)).toBe("accept");
  expect(rulesOf({ ingress: [] }, "to-guest").at(-1)).toBe("counter drop");
});

test("matches peers by sets, and ports by protocol", () => {
  const policy: NicPolicy = {
    ingress: [
      {
        peers: ["10.1.0.0-10.1.0.9", "fd00::1"],
        ports: [
          { protocol: "tcp", first: 80, last: 80 },
          { protocol: "udp", first: 53, last: 53 },
          { protocol: "udp", first: 60, last: 69 },
          { protocol: "sctp", first: 0, last: 65_535 },
        ],
      },
      { ports: [{ protocol: "tcp", first: 22, last: 22 }] },
    ],
  };
  const { sets = [] } = buildPolicyTable(WIRING, policy);
  const [four, six] = sets.filter(({ elements }) => elements.length > 0);
  expect([four?.elements, six?.elements]).toEqual([["10.1.0.0-10.1.0.9"], ["fd00::1"]]);
  const ofPeers = `ip saddr @${four?.name ?? ""}`;
  expect(rulesOf(policy, "ingress4").slice(-5)).toEqual([
    `${ofPeers} tcp dport 80 goto pass4`,
    `${ofPeers} udp dport { 53, 60-69 } goto pass4`,
    `${ofPeers} meta l4proto 132 goto pass4`,
    "tcp dport 22 goto pass4",
    "counter drop",
  ]);
  expect(rulesOf(policy, "ingress6")).toContain(
    `ip6 saddr @${six?.name ?? ""} tcp dport 80 goto pass6`,
  );
});

test("accepts DHCP only to the pod's own server, and packets of the node", () => {
  const policy: NicPolicy = { egress: [], ingress: [], exempt: ["10.88.0.1", "10.96.0.0/16"] };
  const dhcp = (wiring: BridgeWiring | MasqueradeWiring): readonly string[] =>
    rulesOf(policy, "egress4", wiring).filter((rule) => rule.includes("dport 67"));
  expect(dhcp(WIRING)).toEqual([
    "ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept",
    "ip daddr 10.9.0.1 udp sport 68 udp dport 67 accept",
  ]);
  expect(dhcp(NAT).at(-1)).toBe("ip daddr 10.0.2.1 udp sport 68 udp dport 67 accept");
  expect(rulesOf(policy, "ingress4", NAT)).toEqual(
    expect.arrayContaining(
      ["10.88.0.1", "10.96.0.0/16", "10.0.2.1"].map((from) => `ip saddr ${from} goto pass4`),
    ),
  );
  expect(rulesOf(policy, "ingress4")).not.toContain("ip saddr 10.9.0.1 goto pass4");
});

const BEFORE = buildPolicyTable(WIRING, { ingress: [{ peers: ["10.0.0.1"] }] });
const AFTER = buildPolicyTable(WIRING, { ingress: [{ peers: ["10.0.0.2"] }] });

test("a changed peer changes the listed table, and a change retains the remembered flows", () => {
  const present = parseRuleset(`${printTable(BEFORE)}\n`);
  expect([hasTable(present, BEFORE), hasTable(present, AFTER)]).toEqual([true, false]);
  const update = updateTable(present, AFTER).commands;
  const removed = BEFORE.sets?.at(-1)?.name ?? "";
  expect(update.split("\n").slice(0, 3)).toEqual([
    "flush table netdev patchbay-policy-tap0",
    `delete set netdev patchbay-policy-tap0 ${removed}`,
    "table netdev patchbay-policy-tap0 {",
  ]);
  expect(update).toContain("elements = { 10.0.0.2 }");
});

test("a table without its hooks is replaced", () => {
  const text = printTable(BEFORE).replace('device "tap0" ', "");
  for (const present of [parseRuleset(""), parseRuleset(`${text}\n`)]) {
    expect(updateTable(present, AFTER)).toEqual(replaceTable(AFTER));
  }
});
