// SPDX-License-Identifier: Apache-2.0
// The first dead hop and its reason, from observations on the node and beyond it.
import { describe, expect, test } from "vitest";
import {
  asked,
  expectRow,
  FROM_POD,
  buildWiringFault,
  link,
  trace,
  pathFacts,
  type PathChange,
  type PathRow,
} from "../testing/path-facts.ts";
import { diagnose } from "./diagnose.ts";
import type { FrameTrace, LossCount, NodeUplinkFault } from "./facts.ts";
import type { DoctorReason } from "./reasons.ts";
import type { HopName } from "./report.ts";

/** Changed links, changed traces, other observations, and the first dead hop with its reason; none if all are alive. */
type Row = readonly [
  name: string,
  links: NonNullable<PathChange["links"]>,
  traces: readonly FrameTrace[],
  observed: NonNullable<PathChange["observed"]>,
  want?: `${HopName} ${DoctorReason}`,
];

function toCases(rows: readonly Row[]) {
  return rows.map(([name, links, traces, observed, want]) => {
    return { name, change: { links, traces, observed }, want };
  });
}

function expectHop(change: PathChange, want: Row[4]): void {
  const [hop, reason] = want?.split(" ") ?? [];
  const expected = [hop, reason] as unknown as PathRow[2];
  expectRow(change, want === undefined ? undefined : expected);
}

const OTHER_HOST = "02:00:00:00:5e:42";
const PEER_MAC = "02:00:00:00:5e:01";
const TO_NIC = asked("outward", "podNic");
const TO_PEER = asked("outward", "podNic", "nodePeer");
const TO_BRIDGE = asked("outward", "podNic", "nodePeer", "nodeBridge");
const TO_UPLINK = asked("outward", "podNic", "nodePeer", "nodeBridge", "uplink");
const ECHO_TO_PEER = asked("echo", "podNic", "nodePeer");
const LARGE_TO_BRIDGE = asked("outwardLarge", "podNic", "nodePeer", "nodeBridge");
const [ECHO, ECHO_LARGE, ECHO_PARTIAL] = (["echo", "echoLarge", "echoPartial"] as const).map(
  (probe) => asked(probe, "podNic", "nodePeer", "uplink"),
) as unknown as readonly [FrameTrace, FrameTrace, FrameTrace];
const PARTIAL_TO_PEER = asked("echoPartial", "podNic", "nodePeer");
const REPLY_AT_NIC = trace("inward", { replySeenAt: ["tap", "podNic"] });
const REPLY_AT_UPLINK = trace("outward", { replySeenAt: ["uplink"] });
const TWO_HOSTS = trace("outward", { repliedFrom: ["02:00:00:00:5e:99", OTHER_HOST] });
const ECHO_TO_OTHER = trace("echo", { repliedTo: [OTHER_HOST] });

const NO_BRIDGE = { nodeBridge: undefined, uplinks: [] };
const ELSEWHERE = { onNode: "unseen", nodePeer: undefined, ...NO_BRIDGE } as const;
const PARENT = { onNode: "parent", nodePeer: undefined, nodeBridge: undefined } as const;
const LOOSE = { nodePeer: link("veth1"), ...NO_BRIDGE };
const LOOSE_UP = { nodePeer: link("veth1", { addresses: ["fe80::1/64"] }), ...NO_BRIDGE };
const PEER_DOWN = {
  nodePeer: link("veth1", { up: false }),
  podNic: link("pod1", { carrier: false }),
};
const NO_BROADCASTS = { nodePeer: link("veth1", { master: "br0", dropsBroadcasts: true }) };
const BLOCKED = { nodePeer: link("veth1", { master: "br0", isBlocked: true }) };
const SMALL_PEER = { nodePeer: link("veth1", { master: "br0", mtu: 1400 }) };
const VLAN_PEER = { nodePeer: link("veth1", { master: "br0", untaggedVlan: 7, vlans: [7] }) };
const VLAN_BRIDGE = { nodeBridge: link("br0", { canFilterVlans: true }) };
const OWN_VLAN = { ...VLAN_PEER, nodeBridge: link("br0", { canFilterVlans: true, vlans: [1] }) };
const OTHER_VLAN = { ...VLAN_PEER, ...VLAN_BRIDGE, uplinks: [link("eno1", { vlans: [1] })] };
const BRIDGE_DOWN = { nodeBridge: link("br0", { up: false }) };
const NO_UPLINK = { uplinks: [] };
const UPLINK_DOWN = { uplinks: [link("eno1", { up: false })] };
const NO_CARRIER = { uplinks: [link("eno1", { carrier: false })] };
const ONE_DOWN = { uplinks: [link("eno1", { up: false }), link("eno2")] };
const SMALL_UPLINK = { uplinks: [link("eno1", { mtu: 1400 })] };

const PORT = { target: { address: "10.9.0.2", at: "port" } } as const;
const PORT_GUEST = { target: { ...PORT.target, isGuest: true } } as const;
const BRIDGE = { target: { address: "10.9.0.254", at: "bridge" } } as const;
const ROUTED = { target: { address: "169.254.1.1", at: "bridge" } } as const;
const UNKNOWN = { target: undefined };
const UNROUTED = { target: undefined, traces: [], filters: [], isPeerRouted: false };
const QDISC = { at: "node", link: "veth1", command: "tc qdisc show dev veth1" } as const;
const INPUT_CHAIN = { at: "node", command: "nft list chain bridge filter INPUT" } as const;
const ENTRY = { entries: [{ at: "node", port: "eno1", mac: PEER_MAC }] } as const;
const NEIGHBOR = {
  neighbors: [{ at: "node", link: "br0", address: "10.9.0.1", mac: OTHER_HOST }],
} as const;

/** Ten pings to the network, of whose replies `passed` passed the bridge. */
function echoes(passed: number): NonNullable<PathChange["observed"]> {
  const probes = { podNic: 10, nodePeer: 10, uplink: 10 };
  const replies = { uplink: 10, nodePeer: passed, podNic: passed, tap: passed };
  return { losses: [{ probe: "echo", sent: 10, probes, replies }] };
}

const AROUND: readonly Row[] = [
  ["a peer elsewhere", ELSEWHERE, [...FROM_POD, TO_NIC], {}, "nodePeer PeerElsewhere"],
  ["half of the replies lost in the bridge", {}, [], echoes(5), "nodeBridge LossyLink"],
  ["one of ten replies lost", {}, [], echoes(9)],
  ["an entry that leads the guest elsewhere", {}, [], ENTRY, "nodeBridge EntryElsewhere"],
  ["a neighbor entry with another MAC", {}, [], NEIGHBOR, "nodeBridge NeighborWrong"],
  ["a gateway of two hosts", {}, [TWO_HOSTS], {}, "gateway GatewayClaimed"],
  ["a gateway that answers another host", {}, [ECHO_TO_OTHER], {}, "gateway NeighborWrong"],
  ["a rule of the bridge", {}, [TO_PEER], { filters: [INPUT_CHAIN] }, "nodeBridge FramesLost"],
];

describe("the first dead hop in its environment:", () => {
  test.each(toCases(AROUND))("$name", ({ change, want }) => {
    expectHop(change, want);
  });
});

test.each([
  ["no", true, "ForwardingRefused"],
  ["asGuest", true, "MasqueradeMissing"],
  ["asGuest", false, undefined],
  ["asNode", true, "ForwardingRefused"],
] as const)(
  "ping through the node sent %s, reply to the node: %s → %s",
  (sentAs, repliesToNode, want) => {
    const answers = { hasReply: false, repliesToNode };
    const forwarded = { link: "eno1", gateway: "192.0.2.1", sentAs, ...answers };
    const { hops } = diagnose(pathFacts({ observed: { forwarded } }));
    expect(hops.find(({ hop }) => hop === "gateway")?.reason).toBe(want);
  },
);

const NODE: readonly Row[] = [
  ["a peer that is down", PEER_DOWN, [], {}, "nodePeer PeerDown"],
  ["a loose peer", LOOSE_UP, [TO_PEER], {}, "nodePeer PeerOutOfBridge"],
  ["a loose peer, and another guest that does not answer", LOOSE, [TO_PEER], PORT_GUEST],
  ["a loose peer without a route or gateway", LOOSE, [], UNROUTED, "nodePeer PeerOutOfBridge"],
  ["a loose peer with its own program", LOOSE, [], { ...UNROUTED, filters: [QDISC] }],
  ["a loose peer, and no gateway known", LOOSE, [], { target: undefined, traces: [] }],
  ["a peer that is routed", LOOSE, [], ROUTED],
  ["a blocked peer", BLOCKED, [], {}, "nodePeer PortBlocked"],
  ["a peer without broadcasts", NO_BROADCASTS, [], {}, "nodePeer BroadcastsBlocked"],
  ["a small peer", SMALL_PEER, [], {}, "nodePeer MtuSmaller"],
  ["a peer without a VLAN", VLAN_BRIDGE, [TO_PEER], {}, "nodePeer VlanMissing"],
  ["frames that do not leave the pod", {}, [TO_NIC], {}, "nodePeer FramesLost"],
  ["frames that only reach the node", {}, [TO_PEER], {}, "nodePeer FramesLost"],
  ["the guest's replies lost", {}, [REPLY_AT_NIC], {}, "nodePeer FramesLost"],
  ["a bridge that is down", BRIDGE_DOWN, [TO_PEER], {}, "nodeBridge NodeBridgeDown"],
  ["a bridge without the VLAN", OWN_VLAN, [], BRIDGE, "nodeBridge VlanMissing"],
  ["frames that stay in the bridge", {}, [TO_BRIDGE], {}, "nodeBridge FramesLost"],
  ["pings that stay in the bridge", {}, [ECHO_TO_PEER], {}, "nodeBridge FramesLost"],
  ["replies that stay in the bridge", {}, [REPLY_AT_UPLINK], {}, "nodeBridge FramesLost"],
  ["no uplink", NO_UPLINK, [TO_BRIDGE], {}, "uplink UplinkMissing"],
  ["no uplink, and a neighbor", NO_UPLINK, [], PORT],
  ["no uplink, and no known target", NO_UPLINK, [], UNKNOWN],
  ["an uplink that is down", UPLINK_DOWN, [], {}, "uplink UplinkDown"],
  ["an uplink without carrier", NO_CARRIER, [], {}, "uplink NoCarrier"],
  ["one of two uplinks down", ONE_DOWN, [], {}],
  ["a small uplink", SMALL_UPLINK, [], {}, "uplink MtuSmaller"],
  ["an uplink without the VLAN", OTHER_VLAN, [], {}, "uplink VlanMissing"],
  ["a silent gateway", {}, [TO_UPLINK], {}, "gateway GatewaySilent"],
  ["another guest that is silent", {}, [TO_BRIDGE], PORT_GUEST],
  ["a gateway without replies to pings", {}, [ECHO, ECHO_LARGE, ECHO_PARTIAL], {}],
  ["unfinished checksums", {}, [ECHO_PARTIAL], {}, "gateway ChecksumUnfinished"],
  ["unfinished checksums at the node", {}, [PARTIAL_TO_PEER], {}, "nodeBridge ChecksumUnfinished"],
  ["a gateway behind a small link", {}, [ECHO_LARGE], {}, "gateway MtuSmaller"],
  ["large frames that stay in the bridge", {}, [LARGE_TO_BRIDGE], {}, "nodeBridge MtuSmaller"],
  ["a parent", PARENT, FROM_POD, {}],
  ["nothing on the node", ELSEWHERE, FROM_POD, UNKNOWN],
];

describe("the first dead hop of a path with", () => {
  test.each(toCases(NODE))("$name", ({ change, want }) => {
    expectHop(change, want);
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
const INWARD = { nodePeer: ALL, podNic: ALL, tap: ALL };
const OUTWARD = { podNic: ALL, nodePeer: ALL, uplink: ALL };
const HALF_TO_TAP = { ...INWARD, tap: HALF };
const HALF_ANSWERED = { tap: HALF, podNic: HALF, nodePeer: HALF };
const HALF_AT_NIC = { ...HALF_ANSWERED, tap: ALL };
const HALF_AT_PEER = { ...HALF_ANSWERED, uplink: ALL };

function pings(probes: LossCount["probes"], replies: LossCount["replies"]): LossCount {
  return { probe: "ping", sent: ALL, probes, replies };
}

const NETWORK_PINGS: LossCount = { ...pings(OUTWARD, HALF_AT_PEER), probe: "echo" };
const PINGS = "11 of 20 pings to the guest";
const TO_NETWORK = "11 of 20 pings to the network";
const LOST = "got no answer, because it was lost here";
const [TOWARD, FROM] = ["frames toward the guest", "frames from the guest"];

test.each([
  ["pings", pings(HALF_TO_TAP, HALF_ANSWERED), `podBridge: ${PINGS} were lost here: ${TOWARD}`],
  ["the guest's replies", pings(INWARD, HALF_AT_NIC), `tap: ${PINGS} ${LOST}: ${FROM}`],
  ["the network's replies", NETWORK_PINGS, `nodeBridge: ${TO_NETWORK} ${LOST}: ${TOWARD}`],
  ["either", pings(INWARD, HALF_ANSWERED), `guest: ${PINGS} or their answers were lost here`],
])("names the direction of a loss: %s", (_name, count, want) => {
  const { hops, firstDead, isUnplugReason } = diagnose(
    pathFacts({ observed: { losses: [count] } }),
  );
  const dead = hops.find(({ hop }) => hop === firstDead);
  expect(`${dead?.hop ?? ""}: ${dead?.why ?? ""}`).toBe(want);
  expect(dead?.reason).toBe("LossyLink");
  expect(isUnplugReason).toBe(false);
});

test("a lossy link is no firewall of the guest", () => {
  const losses = [pings(INWARD, HALF_ANSWERED)];
  const traces = (["ping", "connect"] as const).map((probe) =>
    asked(probe, "nodePeer", "podNic", "tap"),
  );
  const [guest] = diagnose(pathFacts({ traces, observed: { losses } })).hops;
  expect(guest).toMatchObject({ state: "dead", reason: "LossyLink" });
});

test.each<{ name: string; change: PathChange; want: PathRow[2] }>([
  {
    name: "an answer of the guest lost at the tap, before a hop that loses half of the frames",
    change: {
      traces: [trace("inward", { replySeenAt: ["tap"] })],
      observed: {
        losses: [
          {
            probe: "echo",
            sent: ALL,
            probes: { podNic: ALL, nodePeer: ALL, uplink: ALL },
            replies: { uplink: HALF, nodePeer: HALF, podNic: HALF, tap: HALF },
          },
        ],
      },
    },
    want: ["gateway", "LossyLink"],
  },
  {
    name: "an answer of a guarded guest lost at a tap that loses half of the frames",
    change: {
      allowedAddresses: ["10.9.0.1"],
      traces: [trace("inward", { replySeenAt: ["tap"] })],
      observed: {
        losses: [
          {
            probe: "ping",
            sent: ALL,
            probes: { nodePeer: ALL, podNic: ALL, tap: ALL },
            replies: { tap: ALL, podNic: HALF, nodePeer: HALF },
          },
        ],
      },
    },
    want: ["tap", "LossyLink"],
  },
  {
    name: "a hop that no request passes, before an uplink that loses half of the frames",
    change: {
      traces: [asked("inward", "nodePeer", "podNic")],
      observed: {
        losses: [
          {
            probe: "echo",
            sent: ALL,
            probes: { podNic: ALL, nodePeer: ALL, uplink: ALL },
            replies: { uplink: HALF, nodePeer: HALF, podNic: HALF, tap: HALF },
          },
        ],
      },
    },
    want: ["podBridge", "FramesLost"],
  },
])("one lost answer is no loss of all frames: $name", ({ change, want }) => {
  expectRow(change, want);
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

test.each<{ name: string; nodeUplinkFault: NodeUplinkFault; echo?: FrameTrace; want: object }>([
  {
    name: "a link that is down",
    nodeUplinkFault: { problem: "down", link: "eno7" },
    want: {
      state: "dead",
      reason: "UplinkDown",
      fix: expect.stringContaining("`ip link set dev eno7 up`") as string,
    },
  },
  {
    name: "a link without carrier",
    nodeUplinkFault: { problem: "noCarrier", link: "eno7" },
    want: {
      state: "dead",
      reason: "NoCarrier",
      fix: expect.stringContaining("`ethtool eno7`") as string,
    },
  },
  {
    name: "no default route, as on an isolated node",
    nodeUplinkFault: { problem: "noRoute" },
    want: { state: "unknown", reason: "RouteMissing" },
  },
  {
    name: "no default route, and a gateway that refuses pings",
    nodeUplinkFault: { problem: "noRoute" },
    echo: asked("echo", "podNic", "nodePeer", "nodeBridge"),
    want: { state: "unknown", reason: undefined },
  },
])("a node that is the gateway has $name", ({ nodeUplinkFault, echo, want }) => {
  const target = { address: "10.9.0.254", at: "bridge" as const, isDefault: true as const };
  const bridge = link("br0", { kind: "bridge", addresses: ["10.9.0.254/24"] });
  const { hops, isUnplugReason } = diagnose(
    pathFacts({
      links: { nodeBridge: bridge, uplinks: [] },
      traces: echo === undefined ? [] : [echo],
      observed: { target, nodeUplinkFault, source: "10.9.0.1" },
    }),
  );
  const gateway = hops.find(({ hop }) => hop === "gateway");
  expect({ reason: undefined, ...gateway }).toMatchObject(want);
  expect(isUnplugReason).toBe(false);
});
