// SPDX-License-Identifier: Apache-2.0
// What is seen on the node and beyond it → the first hop that is dead, and why.
import { describe, expect, test } from "vitest";
import {
  asked,
  buildCases,
  expectRow,
  FROM_POD,
  buildWiringFault,
  link,
  trace,
  pathFacts,
  type PathRow,
} from "../testing/path-facts.ts";
import { diagnose } from "./diagnose.ts";
import type { LossCount } from "./facts.ts";

const TEN = { podNic: 10, nodePeer: 10, uplink: 10 };

const MAC_ELSEWHERE = "02:00:00:00:5e:42";

/** What surrounds the path, and what is sent by IP. */
const AROUND: readonly PathRow[] = [
  [
    "a veth whose other end is elsewhere",
    {
      links: { onNode: "unseen", nodePeer: undefined, nodeBridge: undefined, uplinks: [] },
      traces: [...FROM_POD, asked("outward", "podNic")],
    },
    ["nodePeer", "PeerElsewhere"],
  ],
  [
    "half of the answers lost in the bridge",
    {
      observed: {
        losses: [
          {
            probe: "echo",
            sent: 10,
            probes: TEN,
            replies: { uplink: 10, nodePeer: 5, podNic: 5, tap: 5 },
          },
        ],
      },
    },
    ["nodeBridge", "LossyLink"],
  ],
  [
    "one of ten lost",
    {
      observed: {
        losses: [
          {
            probe: "echo",
            sent: 10,
            probes: TEN,
            replies: { uplink: 10, nodePeer: 9, podNic: 9, tap: 9 },
          },
        ],
      },
    },
  ],
  [
    "an entry that leads the guest elsewhere",
    { observed: { entries: [{ at: "node", port: "eno1", mac: "02:00:00:00:5e:01" }] } },
    ["nodeBridge", "EntryElsewhere"],
  ],
  [
    "a neighbor entry with another MAC",
    {
      observed: {
        neighbors: [{ at: "node", link: "br0", address: "10.9.0.1", mac: MAC_ELSEWHERE }],
      },
    },
    ["nodeBridge", "NeighborWrong"],
  ],
  [
    "a gateway of two hosts",
    { traces: [trace("outward", { repliedFrom: ["02:00:00:00:5e:99", MAC_ELSEWHERE] })] },
    ["gateway", "GatewayClaimed"],
  ],
  [
    "a gateway that answers another host",
    { traces: [trace("echo", { repliedTo: [MAC_ELSEWHERE] })] },
    ["gateway", "NeighborWrong"],
  ],
  [
    "frames lost on the bridge by a rule of it",
    {
      traces: [asked("outward", "podNic", "nodePeer")],
      observed: { filters: [{ at: "node", command: "nft list chain bridge filter INPUT" }] },
    },
    ["nodeBridge", "FramesLost"],
  ],
];

describe("the first dead hop in its environment:", () => {
  test.each(buildCases(AROUND))("$name", ({ change, want }) => {
    expectRow(change, want);
  });
});

test.each([
  { sentAs: "no" as const, repliesToNode: true, want: "ForwardingRefused" },
  { sentAs: "asGuest" as const, repliesToNode: true, want: "MasqueradeMissing" },
  { sentAs: "asGuest" as const, repliesToNode: false, want: undefined },
  { sentAs: "asNode" as const, repliesToNode: true, want: "ForwardingRefused" },
])(
  "ping through the node sent $sentAs, reply to the node: $repliesToNode → $want",
  ({ sentAs, repliesToNode, want }) => {
    const forwarded = {
      link: "eno1",
      gateway: "192.0.2.1",
      sentAs,
      hasReply: false,
      repliesToNode,
    };
    const { hops } = diagnose(pathFacts({ observed: { forwarded } }));
    expect(hops.find(({ hop }) => hop === "gateway")?.reason).toBe(want);
  },
);

const NODE: readonly PathRow[] = [
  [
    "a peer that is down",
    { links: { nodePeer: link("veth1", { up: false }), podNic: link("pod1", { carrier: false }) } },
    ["nodePeer", "PeerDown"],
  ],
  [
    "a loose peer",
    {
      links: {
        nodePeer: link("veth1", { addresses: ["fe80::1/64"] }),
        nodeBridge: undefined,
        uplinks: [],
      },
      traces: [asked("outward", "podNic", "nodePeer")],
    },
    ["nodePeer", "PeerOutOfBridge"],
  ],
  [
    "a loose peer, and another guest that does not answer",
    {
      links: { nodePeer: link("veth1"), nodeBridge: undefined, uplinks: [] },
      traces: [asked("outward", "podNic", "nodePeer")],
      observed: { target: { address: "10.9.0.2", at: "port", isGuest: true } },
    },
  ],
  [
    "a loose peer to which no route leads, and no gateway known",
    {
      links: { nodePeer: link("veth1"), nodeBridge: undefined, uplinks: [] },
      observed: { target: undefined, traces: [], filters: [], isPeerRouted: false },
    },
    ["nodePeer", "PeerOutOfBridge"],
  ],
  [
    "a loose peer with a program of its own, and no gateway known",
    {
      links: { nodePeer: link("veth1"), nodeBridge: undefined, uplinks: [] },
      observed: {
        target: undefined,
        traces: [],
        filters: [{ at: "node", link: "veth1", command: "tc qdisc show dev veth1" }],
        isPeerRouted: false,
      },
    },
  ],
  [
    "a loose peer, and no gateway known",
    {
      links: { nodePeer: link("veth1"), nodeBridge: undefined, uplinks: [] },
      observed: { target: undefined, traces: [] },
    },
  ],
  [
    "a peer that is routed",
    {
      links: { nodePeer: link("veth1"), nodeBridge: undefined, uplinks: [] },
      observed: { target: { address: "169.254.1.1", at: "bridge" } },
    },
  ],
  [
    "a blocked peer",
    { links: { nodePeer: link("veth1", { master: "br0", isBlocked: true }) } },
    ["nodePeer", "PortBlocked"],
  ],
  [
    "a small peer",
    { links: { nodePeer: link("veth1", { master: "br0", mtu: 1400 }) } },
    ["nodePeer", "MtuSmaller"],
  ],
  [
    "a peer without a VLAN",
    {
      links: { nodeBridge: link("br0", { canFilterVlans: true }) },
      traces: [asked("outward", "podNic", "nodePeer")],
    },
    ["nodePeer", "VlanMissing"],
  ],
  [
    "frames that leave the pod and do not come",
    { traces: [asked("outward", "podNic")] },
    ["nodePeer", "FramesLost"],
  ],
  [
    "frames that come to the node only",
    { traces: [asked("outward", "podNic", "nodePeer")] },
    ["nodePeer", "FramesLost"],
  ],
  [
    "answers of the guest that do not come",
    { traces: [trace("inward", { replySeenAt: ["tap", "podNic"] })] },
    ["nodePeer", "FramesLost"],
  ],
  [
    "a bridge that is down",
    {
      links: { nodeBridge: link("br0", { up: false }) },
      traces: [asked("outward", "podNic", "nodePeer")],
    },
    ["nodeBridge", "NodeBridgeDown"],
  ],
  [
    "a bridge without the VLAN",
    {
      links: {
        nodePeer: link("veth1", { master: "br0", untaggedVlan: 7, vlans: [7] }),
        nodeBridge: link("br0", { canFilterVlans: true, vlans: [1] }),
      },
      observed: { target: { address: "10.9.0.254", at: "bridge" } },
    },
    ["nodeBridge", "VlanMissing"],
  ],
  [
    "frames that stay in the bridge",
    { traces: [asked("outward", "podNic", "nodePeer", "nodeBridge")] },
    ["nodeBridge", "FramesLost"],
  ],
  [
    "pings that stay in the bridge",
    { traces: [asked("echo", "podNic", "nodePeer")] },
    ["nodeBridge", "FramesLost"],
  ],
  [
    "answers that stay in the bridge",
    { traces: [trace("outward", { replySeenAt: ["uplink"] })] },
    ["nodeBridge", "FramesLost"],
  ],
  [
    "no uplink",
    { links: { uplinks: [] }, traces: [asked("outward", "podNic", "nodePeer", "nodeBridge")] },
    ["uplink", "UplinkMissing"],
  ],
  [
    "no uplink, and a neighbour",
    { links: { uplinks: [] }, observed: { target: { address: "10.9.0.2", at: "port" } } },
  ],
  ["no uplink, and nobody known", { links: { uplinks: [] }, observed: { target: undefined } }],
  [
    "an uplink that is down",
    { links: { uplinks: [link("eno1", { up: false })] } },
    ["uplink", "UplinkDown"],
  ],
  [
    "an uplink without carrier",
    { links: { uplinks: [link("eno1", { carrier: false })] } },
    ["uplink", "NoCarrier"],
  ],
  ["one of two uplinks down", { links: { uplinks: [link("eno1", { up: false }), link("eno2")] } }],
  [
    "a small uplink",
    { links: { uplinks: [link("eno1", { mtu: 1400 })] } },
    ["uplink", "MtuSmaller"],
  ],
  [
    "an uplink without the VLAN",
    {
      links: {
        nodePeer: link("veth1", { master: "br0", untaggedVlan: 7, vlans: [7] }),
        nodeBridge: link("br0", { canFilterVlans: true }),
        uplinks: [link("eno1", { vlans: [1] })],
      },
    },
    ["uplink", "VlanMissing"],
  ],
  [
    "a silent gateway",
    { traces: [asked("outward", "podNic", "nodePeer", "nodeBridge", "uplink")] },
    ["gateway", "GatewaySilent"],
  ],
  [
    "another guest that is silent",
    {
      traces: [asked("outward", "podNic", "nodePeer", "nodeBridge")],
      observed: { target: { address: "10.9.0.2", at: "port", isGuest: true } },
    },
  ],
  [
    "a gateway that answers no ping",
    {
      traces: [
        asked("echo", "podNic", "nodePeer", "uplink"),
        asked("echoLarge", "podNic", "nodePeer", "uplink"),
        asked("echoPartial", "podNic", "nodePeer", "uplink"),
      ],
    },
  ],
  [
    "a gateway that gets checksums unfinished",
    { traces: [asked("echoPartial", "podNic", "nodePeer", "uplink")] },
    ["gateway", "ChecksumUnfinished"],
  ],
  [
    "checksums that stay unfinished on the node",
    { traces: [asked("echoPartial", "podNic", "nodePeer")] },
    ["nodeBridge", "ChecksumUnfinished"],
  ],
  [
    "a gateway behind a small link",
    { traces: [asked("echoLarge", "podNic", "nodePeer", "uplink")] },
    ["gateway", "MtuSmaller"],
  ],
  [
    "large frames that stay in the bridge",
    { traces: [asked("outwardLarge", "podNic", "nodePeer", "nodeBridge")] },
    ["nodeBridge", "MtuSmaller"],
  ],
  [
    "a parent",
    { links: { nodePeer: undefined, nodeBridge: undefined, onNode: "parent" }, traces: FROM_POD },
  ],
  [
    "nothing on the node",
    {
      links: { nodePeer: undefined, nodeBridge: undefined, uplinks: [], onNode: "unseen" },
      traces: FROM_POD,
      observed: { target: undefined },
    },
  ],
];

describe("the first dead hop of a path with", () => {
  test.each(buildCases(NODE))("$name", ({ change, want }) => {
    expectRow(change, want);
  });
});

test("a gateway that answers ARP and no ping is not reported as ok", () => {
  const traces = [asked("echo", "podNic", "nodePeer", "uplink")];
  const { hops } = diagnose(pathFacts({ traces }));
  const gateway = hops.find(({ hop }) => hop === "gateway");
  expect(gateway?.state).toBe("unknown");
  expect(gateway?.why).toContain("ARP, not IP");
});

const [ALL, HALF] = [20, 9];

test.each<{ name: string; count: LossCount; want: object }>([
  {
    name: "pings on their way to the guest",
    count: {
      probe: "ping",
      sent: ALL,
      probes: { nodePeer: ALL, podNic: ALL, tap: HALF },
      replies: { tap: HALF, podNic: HALF, nodePeer: HALF },
    },
    want: {
      hop: "podBridge",
      why: "11 of 20 pings to the guest were lost here: frames toward the guest",
    },
  },
  {
    name: "answers of the guest",
    count: {
      probe: "ping",
      sent: ALL,
      probes: { nodePeer: ALL, podNic: ALL, tap: ALL },
      replies: { tap: ALL, podNic: HALF, nodePeer: HALF },
    },
    want: {
      hop: "tap",
      why: "11 of 20 pings to the guest got no answer, because it was lost here: frames from the guest",
    },
  },
  {
    name: "answers of the network",
    count: {
      probe: "echo",
      sent: ALL,
      probes: { podNic: ALL, nodePeer: ALL, uplink: ALL },
      replies: { uplink: ALL, nodePeer: HALF, podNic: HALF, tap: HALF },
    },
    want: {
      hop: "nodeBridge",
      why: "11 of 20 pings to the network got no answer, because it was lost here: frames toward the guest",
    },
  },
  {
    name: "pings or answers in the guest",
    count: {
      probe: "ping",
      sent: ALL,
      probes: { nodePeer: ALL, podNic: ALL, tap: ALL },
      replies: { tap: HALF, podNic: HALF, nodePeer: HALF },
    },
    want: { hop: "guest", why: "11 of 20 pings to the guest or their answers were lost here" },
  },
])("names the direction of a loss: $name", ({ count, want }) => {
  const { hops, firstDead, isUnplugReason } = diagnose(
    pathFacts({ observed: { losses: [count] } }),
  );
  expect(hops.find(({ hop }) => hop === firstDead)).toMatchObject({ reason: "LossyLink", ...want });
  expect(isUnplugReason).toBe(false);
});

test("a lossy link is no firewall of the guest", () => {
  const lost = { nodePeer: ALL, podNic: ALL, tap: ALL };
  const replies = { tap: HALF, podNic: HALF, nodePeer: HALF };
  const losses = [{ probe: "ping" as const, sent: ALL, probes: lost, replies }];
  const traces = (["ping", "connect"] as const).map((probe) =>
    asked(probe, "nodePeer", "podNic", "tap"),
  );
  const [guest] = diagnose(pathFacts({ traces, observed: { losses } })).hops;
  expect(guest).toMatchObject({ state: "dead", reason: "LossyLink" });
});

test("without the address of the pod's bridge, the bridge is at fault, not the guest's firewall", () => {
  const traces = [...FROM_POD.filter(({ probe }) => probe.startsWith("inward"))].concat(
    asked("ping", "tap"),
    asked("connect", "tap"),
  );
  const wiringFaults = buildWiringFault("other", "k6t-1");
  const change = { binding: "masquerade" as const, traces, wiringFaults };
  expectRow({ ...change, observed: { isBridged: false } }, ["podBridge", "BridgeChanged"]);
});

const ROUTE_FAULT = { command: "ip route get 10.9.0.254", problem: "Permission denied" };

test("reports routes of the pod only if its links are up and its addresses exist", () => {
  const nic = link("pod1", { addresses: ["10.9.0.5/24"] });
  const observed = { isBridged: false, routeFaults: [{ at: "pod" as const, ...ROUTE_FAULT }] };
  const change = {
    binding: "masquerade" as const,
    podAddresses: ["10.9.0.5"],
    traces: FROM_POD,
    observed,
  };
  expectRow({ ...change, links: { podNic: nic } }, ["translation", "RouteMissing"]);
  expectRow({ ...change, links: { podNic: link("pod1") } }, ["podNic", "NicAddressMissing"]);
  expectRow({ ...change, links: { podNic: { ...nic, up: false } } }, ["podNic", "NicDown"]);
});

test("reports a route of the node only if the node does not answer pings", () => {
  const routeFaults = [{ at: "node" as const, ...ROUTE_FAULT }];
  const observed = { target: { address: "10.9.0.254", at: "bridge" as const }, routeFaults };
  expectRow({ observed, traces: [asked("echo", "podNic", "nodePeer", "nodeBridge")] }, [
    "gateway",
    "RouteMissing",
  ]);
  expectRow({ observed }, undefined);
});
