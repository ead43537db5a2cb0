// SPDX-License-Identifier: Apache-2.0
import type { BridgeWiring, RateLimit } from "@patchbay/core/nics";
import { expect, test } from "vitest";
import { printLinkChange, type WiredLink } from "../links.ts";
import type { NetnsState } from "../netlink/netns-state.ts";
import { parseRuleset, printTable } from "../nft/table.ts";
import { applyLimits, buildLimitTable, isLimited, removeLimiter } from "./rate-limits.ts";
import type { Pod } from "./wirers.ts";

const LIMIT: RateLimit = {
  average: { bytesPerSecond: 1_000_000, burstBytes: 50_000 },
  queueBytes: 150_000,
};
const PEAK: RateLimit = { ...LIMIT, peak: { bytesPerSecond: 2_000_000, burstBytes: 2000 } };
const TAP = {
  kind: "bridge",
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
} as const;
const RULES = printTable(buildLimitTable("tap1"));

interface Present {
  readonly inbound?: RateLimit;
  readonly outbound?: RateLimit;
  readonly limiter?: "up" | "down";
  readonly hasRules?: boolean;
}

function stateWith({ inbound, outbound, limiter, hasRules = false }: Present): NetnsState {
  const link = { name: "lim1", kind: "ifb", up: limiter === "up" } as WiredLink;
  return {
    links: new Map(limiter === undefined ? [] : [["lim1", link]]),
    forwarding: [],
    limits: new Map(
      [["tap1", inbound] as const, ["lim1", outbound] as const].flatMap(([name, limit]) =>
        limit === undefined ? [] : [[name, limit] as const],
      ),
    ),
    tables: parseRuleset(hasRules ? RULES : ""),
    sysctls: new Map(),
  };
}

/** Collects the commands in order; rules as their first line. */
function recordPod(): { readonly pod: Pod; readonly commands: string[] } {
  const commands: string[] = [];
  const pod = {
    applyChanges: (changes: Parameters<Pod["applyChanges"]>[0]) => {
      commands.push(...changes.map(printLinkChange));
      return Promise.resolve();
    },
    applyRules: (changes: Parameters<Pod["applyRules"]>[0]) => {
      commands.push(
        ...changes.map(({ result }) => (result === "removed" ? "nft delete" : "nft add")),
      );
      return Promise.resolve();
    },
  };
  return { pod: pod as unknown as Pod, commands };
}

const RATE = "root handle 7062: tbf rate 8000000bit burst 50000";
const SET = [
  `tc qdisc replace dev tap1 ${RATE} limit 150000`,
  "ip link add lim1 type ifb",
  "ip link set lim1 addrgenmode none up",
  `tc qdisc replace dev lim1 ${RATE} peakrate 16000000bit mtu 2000 limit 150000`,
  "nft add",
];
const BOTH = { inbound: LIMIT, outbound: PEAK };
const DONE: Present = { ...BOTH, limiter: "up", hasRules: true };

test.each<{ name: string; present: Present; limits?: BridgeWiring["limits"]; want: string[] }>([
  { name: "new limits", present: {}, limits: BOTH, want: SET },
  { name: "present limits", present: DONE, limits: BOTH, want: [] },
  { name: "no limits", present: {}, want: [] },
  {
    name: "removed limits",
    present: DONE,
    want: ["tc qdisc del dev tap1 root handle 7062:", "nft delete", "ip link del lim1"],
  },
  {
    name: "swapped limits",
    present: DONE,
    limits: { inbound: PEAK, outbound: LIMIT },
    want: [
      `tc qdisc replace dev tap1 ${RATE} peakrate 16000000bit mtu 2000 limit 150000`,
      `tc qdisc replace dev lim1 ${RATE} limit 150000`,
    ],
  },
  {
    name: "a limiter that is down",
    present: { ...DONE, limiter: "down" },
    limits: BOTH,
    want: SET.slice(2, 3),
  },
  {
    name: "a deleted limiter, whose rule refers to its index",
    present: { inbound: LIMIT, hasRules: true },
    limits: BOTH,
    want: SET.slice(1),
  },
  { name: "missing rules", present: { ...DONE, hasRules: false }, limits: BOTH, want: ["nft add"] },
])("$name need their changes only", async ({ present, limits, want }) => {
  const wiring = { ...TAP, ...(limits === undefined ? {} : { limits }) };
  const { pod, commands } = recordPod();
  await applyLimits(pod, wiring, stateWith(present));
  expect(commands).toEqual(want);
  expect(isLimited(stateWith(present), wiring)).toBe(want.length === 0);
});

test("removal deletes the rules before the limiter, and repeats without effect", async () => {
  const { pod, commands } = recordPod();
  await removeLimiter(pod, TAP, stateWith(DONE));
  await removeLimiter(pod, TAP, stateWith({}));
  expect(commands).toEqual(["nft delete", "ip link del lim1"]);
});

test("a plugin's tap keeps the plugin's limits", async () => {
  const { pod, commands } = recordPod();
  const wiring = { kind: "tap", podInterfaceName: "pod1", tapName: "tap1" } as const;
  await applyLimits(pod, { ...wiring, limits: BOTH }, stateWith(DONE));
  await removeLimiter(pod, wiring, stateWith(DONE));
  expect(commands).toEqual([]);
  expect(isLimited(stateWith(DONE), wiring)).toBe(true);
});
