// SPDX-License-Identifier: Apache-2.0
import type { FrameTrace, PathLink, PathLinks } from "@patchbay/core/doctor";
import { describe, expect, test } from "vitest";
import { buildSeriesProbes, type ProbeFacts } from "./probes.ts";

const GUEST_MAC = "02:00:00:00:5e:01";
const [GATEWAY_MAC, OTHER_MAC] = ["02:00:00:00:5e:fe", "02:00:00:00:5e:99"];

function link(name: string): PathLink {
  return {
    name,
    kind: "veth",
    mac: "02:00:00:00:5e:77",
    mtu: 1500,
    up: true,
    carrier: true,
    addresses: [],
    isBlocked: false,
    canFilterVlans: false,
    vlans: [],
  };
}

const LINKS: PathLinks = {
  tap: link("tap1"),
  podBridge: link("k6t-1"),
  podNic: { ...link("pod1"), addresses: ["10.9.0.5/24"] },
  nodePeer: link("veth1"),
  uplinks: [],
  onNode: "peer",
};
const COMMON = {
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: GUEST_MAC,
  mtu: 1500,
};
const NETNS = { fd: 1, inode: "1" };

function buildFacts(kind: "bridge" | "masquerade"): ProbeFacts {
  const wiring =
    kind === "bridge"
      ? ({ ...COMMON, kind } as const)
      : ({
          ...COMMON,
          kind,
          ports: [],
          ipv4: { gateway: "10.9.0.254/24", guest: "10.9.0.1" },
        } as const);
  return {
    nic: {
      pod: NETNS,
      node: NETNS,
      wiring,
      addresses: ["10.9.0.1"],
      testsDhcp: false,
      withinMs: 4000,
    },
    links: LINKS,
    target: { address: "10.9.0.254", at: "beyond" },
    newId: () => 7,
  };
}

function answered(probe: FrameTrace["probe"], ...repliedFrom: readonly string[]): FrameTrace {
  return { probe, probeSeenAt: [], replySeenAt: [], repliedFrom, repliedTo: [] };
}

const INWARD = answered("inward", GUEST_MAC);
const OUTWARD = answered("outward", GATEWAY_MAC);

describe("ARP requests that introduce guest and gateway", () => {
  test.each<{
    name: string;
    binding: "bridge" | "masquerade";
    traces: readonly FrameTrace[];
    want: readonly string[];
  }>([
    {
      name: "go to both",
      binding: "bridge",
      traces: [INWARD, OUTWARD],
      want: ["inward from nodePeer", "outward from podNic"],
    },
    {
      name: "go only to a guest whose gateway is the pod",
      binding: "masquerade",
      traces: [INWARD, OUTWARD],
      want: ["inward from podBridge"],
    },
    {
      name: "are not sent if two hosts answer for the gateway",
      binding: "bridge",
      traces: [INWARD, answered("outward", GATEWAY_MAC, OTHER_MAC)],
      want: [],
    },
    {
      name: "are not sent if two hosts answer for the guest",
      binding: "bridge",
      traces: [answered("inward", GUEST_MAC, OTHER_MAC), OUTWARD],
      want: [],
    },
    {
      name: "are not sent if another host of the network has the guest's address",
      binding: "bridge",
      traces: [INWARD, OUTWARD, answered("own", OTHER_MAC)],
      want: [],
    },
    { name: "are not sent to a silent guest", binding: "bridge", traces: [OUTWARD], want: [] },
  ])("$name: $binding", ({ binding, traces, want }) => {
    const probes = buildSeriesProbes(buildFacts(binding), traces);
    const arp = probes.filter(({ probe }) => probe === "inward" || probe === "outward");
    expect([...new Set(arp.map(({ probe, from }) => `${probe} from ${from}`))]).toEqual(want);
    expect(arp).toHaveLength(6 * want.length);
  });
});
