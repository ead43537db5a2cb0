// SPDX-License-Identifier: Apache-2.0
import type { SendGuard } from "@patchbay/core/nics";
import { describe, expect, test } from "vitest";
import { buildAnswersTable } from "./answers.ts";
import { addDropCounters, parseDhcpRequests, parsePolicyDrops, parseRefusals } from "./counters.ts";
import { buildGuardTable } from "./guard.ts";
import { buildNatTable } from "./nat.ts";
import { buildPolicyTable } from "./policy.ts";
import { type Table, printTable } from "./table.ts";

const MAC = "02:00:00:00:5e:01";
const GUARDS: readonly SendGuard[] = [
  { macs: [MAC], allowsServers: false },
  { macs: [MAC], allowsServers: true },
  { macs: [MAC], allowsServers: false, addresses: ["10.9.0.1", "fd09::1"] },
];

/** What nft would print, had each rule refused one frame. */
function countedOnce(guard: SendGuard): string {
  const text = printTable(buildGuardTable("tap1", guard));
  return text.replaceAll("counter drop", "counter packets 1 bytes 60 drop");
}

describe("dropped frames of a guest", () => {
  test.each([
    { rules: ["a drop", "b accept"], want: ["a counter drop", "b accept", "counter drop"] },
    { rules: ["drop"], want: ["counter drop"] },
    { rules: ["a drop", "goto b"], want: ["a counter drop", "goto b"] },
    { rules: ["accept"], want: ["accept"] },
    { rules: [], want: ["counter drop"] },
  ])("are counted where they are dropped, and only there: $rules", ({ rules, want }) => {
    expect(addDropCounters({ name: "c", rules }).rules).toEqual(want);
  });

  test.each(GUARDS)("have a readable reason for each rule: $allowsServers $addresses", (guard) => {
    const chains = buildGuardTable("tap1", guard).chains.map(({ name }) => name);
    const reasons = parseRefusals(countedOnce(guard)).map(({ description: what }) => what);
    expect(reasons.length).toBeGreaterThan(5);
    expect(reasons.filter((what) => chains.includes(what))).toEqual([]);
  });

  test("are reported by reason, the most frequent first, without zero counts", () => {
    const text = [
      "table netdev patchbay-tap1 {",
      "\tchain from-guest {",
      "\t\tether daddr 01:00:0c:cc:cc:cc counter packets 2 bytes 120 drop",
      "\t\tether daddr 01:00:0c:cc:cc:cd counter packets 3 bytes 180 drop",
      "\t\tcounter packets 0 bytes 0 drop",
      "\t}",
      "\tchain ipv4-source {",
      "\t\tip saddr 10.9.0.1 accept",
      "\t\tcounter packets 12 bytes 1176 drop",
      "\t}",
      "}",
    ];
    expect(parseRefusals(text.join("\n"))).toEqual([
      { description: "IPv4 from another address", frames: 12, isOfIpv4Address: true },
      { description: "messages between switches", frames: 5, isOfIpv4Address: false },
    ]);
  });
});

const LINKS = { bridgeName: "k6t-1", podInterfaceName: "pod1", tapName: "tap1" };
const ADDRESSES = ["169.254.75.10/32", "fd09::/64"];
const TABLES: readonly (readonly [string, Table])[] = [
  [
    "bridge",
    buildAnswersTable({
      ...LINKS,
      bridgeMac: "5e:00:00:00:00:01",
      answers: { addresses: ADDRESSES },
    }),
  ],
  [
    "masquerade",
    buildNatTable({
      ...LINKS,
      ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
      ipv6: { gateway: "fd10::1/120", guest: "fd10::2" },
      ports: [{ protocol: "udp", first: 67, last: 67 }],
    }),
  ],
];

test.each(TABLES)("counts requests of both families: %s", (_, table) => {
  let packets = 0;
  const text = printTable(table).replaceAll(/ counter\b/g, () => {
    packets += 3;
    return ` counter packets ${String(packets)} bytes 900`;
  });
  expect(parseDhcpRequests(text)).toBe(3 + 6);
});

test("counts frames that network policies drop, by direction", () => {
  const wiring = { kind: "bridge", mac: "02:00:00:00:00:01", mtu: 1500, ...LINKS } as const;
  const table = buildPolicyTable(wiring, { ingress: [], egress: [{ peers: ["10.0.0.1"] }] });
  const text = printTable(table).replaceAll("counter drop", "counter packets 2 bytes 120 drop");
  const drops = parsePolicyDrops(text).map(({ description, frames }) => [description, frames]);
  // Of each direction: other frames than IP, IPv4, and IPv6 with other headers and other IPv6.
  expect(drops).toEqual([
    ["from the guest", 8],
    ["to the guest", 8],
  ]);
});
