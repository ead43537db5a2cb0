// SPDX-License-Identifier: Apache-2.0
// What is seen of a way → the first hop that is dead, and why.
import { describe, expect, test } from "vitest";
import {
  asked,
  buildCases,
  expectRow,
  FROM_POD,
  buildWiringFault,
  link,
  MAC,
  OTHER,
  trace,
  pathFacts,
  type PathChange,
  type PathRow,
} from "../testing/path-facts.ts";
import { diagnose } from "./diagnose.ts";
import type { RefusedFrames } from "./facts.ts";
import { DOCTOR_FIXES } from "./reasons.ts";
import { printFix } from "./report.ts";

const NO_NIC = { podNic: undefined, nodePeer: undefined, nodeBridge: undefined, uplinks: [] };

const NO_OFFER = asked("dhcp", "podNic", "nodePeer", "nodeBridge", "uplink");

/** Of frames of the guest's, so many while it was looked. */
function refusal(lately: number): RefusedFrames {
  return {
    description: "ARP from elsewhere",
    frames: 9,
    isOfIpv4Address: true,
    recentFrames: lately,
  };
}
const POLICIES_DROP = {
  observed: { policyDrops: [{ ...refusal(3), description: "to the guest" }] },
};
const REFUSED_NOW: PathChange = { observed: { refused: [refusal(3)] } };

const GUEST: readonly PathRow[] = [
  ["a whole way", {}],
  ["no agent", { guest: undefined }],
  ["another MAC by the agent", { guest: { macs: [OTHER] } }, ["guest", "WrongMacInGuest"]],
  [
    "another MAC by what it answers",
    { guest: undefined, traces: [trace("inward", { repliedFrom: [OTHER] })] },
    ["guest", "WrongMacInGuest"],
  ],
  ["silence", { traces: [asked("inward", "nodePeer", "podNic", "tap")] }, ["guest", "GuestSilent"]],
  [
    "silence, and no agent",
    { guest: undefined, traces: [asked("inward", "nodePeer", "podNic", "tap")] },
  ],
  [
    "silence, and no address by the agent while none is served",
    {
      guest: { macs: [MAC] },
      traces: [asked("inward", "nodePeer", "podNic", "tap")],
    },
  ],
  [
    "silence of a paused guest",
    { isPaused: true, traces: [asked("inward", "nodePeer", "podNic", "tap")] },
  ],
  ["a second NIC of the same VM that answers for it", { vmMacs: [OTHER], traces: [trace("own")] }],
  ["somebody with its address", { traces: [trace("own")] }, ["guest", "DuplicateAddress"]],
  [
    "silence of a guest whose address another host has",
    { traces: [asked("inward", "nodePeer", "podNic", "tap"), trace("own")] },
    ["guest", "DuplicateAddress"],
  ],
  ["no address", { guest: { macs: [MAC], addresses: [] } }, ["guest", "NoAddressInGuest"]],
  [
    "no default route",
    { guest: { macs: [MAC], addresses: ["10.9.0.1"], hasDefaultRoute: false } },
    ["guest", "NoDefaultRoute"],
  ],
  [
    "no default route where none leads out",
    {
      guest: { macs: [MAC], addresses: ["10.9.0.1"], hasDefaultRoute: false },
      offersDefaultRoute: false,
    },
  ],
  [
    "no answer by IP",
    {
      traces: ["ping" as const, "connect" as const].map((probe) =>
        asked(probe, "nodePeer", "podNic", "tap"),
      ),
    },
    ["guest", "GuestRefusesIp"],
  ],
  [
    "no answer by IP of Windows",
    {
      isWindows: true,
      traces: ["ping" as const, "connect" as const].map((probe) =>
        asked(probe, "nodePeer", "podNic", "tap"),
      ),
    },
  ],
  [
    "no answer by IP of a paused guest",
    {
      isPaused: true,
      traces: ["ping" as const, "connect" as const].map((probe) =>
        asked(probe, "nodePeer", "podNic", "tap"),
      ),
    },
  ],
  ["a refused ping alone", { traces: [asked("ping", "nodePeer", "podNic", "tap")] }],
  [
    "frames to another MAC than the gateway's",
    { traces: [trace("ping", { repliedTo: [MAC] })] },
    ["guest", "NeighborWrong"],
  ],
  ["a device that is down", { device: { linkUp: false, mac: MAC } }, ["device", "DeviceLinkDown"]],
  ["no device", { device: undefined, blockedReason: "NoFreePciePort" }, ["device", "NotPlugged"]],
  ["a hook's device", { device: undefined, binding: "hook" }],
];

const POD: readonly PathRow[] = [
  ["no tap", { links: { tap: undefined } }, ["tap", "TapMissing"]],
  ["a tap that is down", { links: { tap: link("tap1", { up: false }) } }, ["tap", "TapDown"]],
  [
    "a tap without QEMU",
    { links: { tap: link("tap1", { carrier: false }) } },
    ["tap", "TapNotOpen"],
  ],
  [
    "a tap that is blocked",
    { links: { tap: link("tap1", { isBlocked: true }) } },
    ["tap", "PortBlocked"],
  ],
  ["a loose tap", { wiringFaults: buildWiringFault("master", "tap1") }, ["tap", "TapOutOfBridge"]],
  ["a small tap", { links: { tap: link("tap1", { mtu: 1400 }) } }, ["tap", "MtuSmaller"]],
  [
    "a tap without its rules",
    { wiringFaults: buildWiringFault("rules", "tap1") },
    ["tap", "RulesChanged"],
  ],
  ["an address of its own making", { allowedAddresses: ["10.9.0.2"] }, ["tap", "GuardRefuses"]],
  [
    "answers that the rules drop",
    {
      allowedAddresses: ["10.9.0.1"],
      traces: [trace("inward", { replySeenAt: ["tap"] })],
    },
    ["tap", "GuardRefuses"],
  ],
  ["frames refused by their address just now", REFUSED_NOW, ["tap", "GuardRefuses"]],
  ["frames refused by their address long ago", { observed: { refused: [refusal(0)] } }],
  ["other frames refused", { observed: { refused: [{ ...refusal(3), isOfIpv4Address: false }] } }],
  [
    "answers lost at the tap",
    { traces: [trace("inward", { replySeenAt: ["tap"] })] },
    ["tap", "FramesLost"],
  ],
  [
    "answers lost at the tap while policies drop frames",
    { traces: [trace("inward", { replySeenAt: ["tap"] })], ...POLICIES_DROP },
  ],
  ["no pod bridge", { links: { podBridge: undefined } }, ["podBridge", "BridgeMissing"]],
  [
    "a pod bridge that is down",
    { links: { podBridge: link("k6t-1", { up: false }) } },
    ["podBridge", "BridgeDown"],
  ],
  [
    "no entry of the guest",
    { wiringFaults: buildWiringFault("entry", "tap1") },
    ["podBridge", "EntryMissing"],
  ],
  ["learning", { wiringFaults: buildWiringFault("learning", "pod1") }, ["podBridge", "LearningOn"]],
  [
    "another bridge",
    { wiringFaults: buildWiringFault("mac", "k6t-1") },
    ["podBridge", "BridgeChanged"],
  ],
  [
    "questions lost in the pod",
    { traces: [asked("inward", "nodePeer", "podNic")] },
    ["podBridge", "FramesLost"],
  ],
  ["a dead server", { serves: false }, ["addresses", "AddressServerDown"]],
  [
    "silence of a guest without a server",
    {
      serves: false,
      guest: undefined,
      traces: [asked("inward", "nodePeer", "podNic", "tap")],
    },
    ["addresses", "AddressServerDown"],
  ],
  ["a server", { serves: true }],
  [
    "no offer to a guest without an address",
    { guest: { macs: [MAC], addresses: [] }, traces: [NO_OFFER] },
    ["addresses", "NobodyOffers"],
  ],
  ["no offer to a guest with one", { traces: [NO_OFFER] }],
  ["no offer to a guest without an agent", { guest: undefined, traces: [NO_OFFER] }],
  ["an offer", { traces: [trace("dhcp")] }],
  [
    "no pod NIC",
    { links: { ...NO_NIC, onNode: "unseen" }, observed: { traces: [] } },
    ["podNic", "NicMissing"],
  ],
  [
    "a pod NIC that is down",
    { links: { podNic: link("pod1", { up: false }) } },
    ["podNic", "NicDown"],
  ],
  [
    "a pod NIC without carrier",
    { links: { podNic: link("pod1", { carrier: false }) } },
    ["podNic", "NoCarrier"],
  ],
  [
    "a loose pod NIC",
    { wiringFaults: buildWiringFault("master", "pod1") },
    ["podNic", "NicOutOfBridge"],
  ],
  [
    "another MAC at the pod NIC",
    { wiringFaults: buildWiringFault("mac", "pod1") },
    ["podNic", "NicWrongMac"],
  ],
  [
    "a blocked pod NIC",
    { links: { podNic: link("pod1", { isBlocked: true }) } },
    ["podNic", "PortBlocked"],
  ],
  ["a small pod NIC", { links: { podNic: link("pod1", { mtu: 1400 }) } }, ["podNic", "MtuSmaller"]],
  [
    "what the kernel refuses",
    { traces: [{ ...asked("outward"), refused: "no buffer space available (ENOBUFS)" }] },
    ["podNic", "FramesLost"],
  ],
];

const NAT: readonly PathRow[] = [
  ["whole", {}],
  [
    "without its rules",
    { wiringFaults: buildWiringFault("rules", "") },
    ["translation", "RulesChanged"],
  ],
  ["silent", { traces: [asked("inward", "tap")] }, ["guest", "GuestSilent"]],
  [
    "not heard at its gateway",
    { traces: [trace("inward", { replySeenAt: ["tap"] })] },
    ["tap", "FramesLost"],
  ],
];

describe("the first dead hop of a bridged NIC with", () => {
  test.each(buildCases([...GUEST, ...POD]))("$name", ({ change, want }) => {
    expectRow(change, want);
  });
});

describe("the first dead hop of a NIC behind the pod that is", () => {
  test.each(buildCases(NAT))("$name", ({ change, want }) => {
    const { traces = [] } = change;
    const others = FROM_POD.filter(({ probe }) => !traces.some((one) => one.probe === probe));
    const behind: PathChange = {
      binding: "masquerade",
      links: { podNic: link("eth0", { mac: MAC }) },
    };
    const observed = { isBridged: false };
    expectRow({ ...behind, ...change, observed, traces: [...others, ...traces] }, want);
  });
});

describe("a NIC whose frames bypass the kernel", () => {
  test.each(["vhostuser", "hook", "tap"] as const)("is not reported as dead: %s", (binding) => {
    const { hops, firstDead } = diagnose(pathFacts({ binding, isUnseen: true }));
    expect(firstDead).toBeUndefined();
    expect(hops.find(({ hop }) => hop === "nodePeer")).toMatchObject({ state: "unknown" });
  });
});

test.each([
  { change: REFUSED_NOW, want: /refused frames .* during this check: 3 of ARP from elsewhere$/ },
  {
    change: { observed: { refused: [refusal(0)] } },
    want: /a port of its bridge; its send guard has refused frames before: 9 of ARP from elsewhere$/,
  },
  {
    change: {
      allowedAddresses: ["10.9.0.1"],
      traces: [trace("inward", { replySeenAt: ["tap"] })],
      observed: { refused: [refusal(2)] },
    },
    want: /reach the tap but go no further: its guard refuses ARP from elsewhere$/,
  },
  {
    change: POLICIES_DROP,
    want: /a port of its bridge; network policies dropped 9 frames to the guest \(3 during this check\)$/,
  },
])("reports a guest's dropped frames with their reason: $want", ({ change, want }) => {
  const { hops } = diagnose(pathFacts(change));
  expect(hops.find(({ hop }) => hop === "tap")?.why).toMatch(want);
});

test.each([
  { name: "a NIC without a fault", change: {}, want: false },
  {
    name: "a tap that is down",
    change: { links: { tap: link("tap1", { up: false }) } },
    want: true,
  },
  {
    name: "an unresponsive gateway",
    change: { traces: [asked("outward", "podNic", "nodePeer")] },
    want: false,
  },
  {
    name: "an unresponsive neighbor",
    change: {
      traces: [asked("outward", "podNic", "nodePeer")],
      seen: { target: { address: "10.9.0.2", at: "port" as const, isGuest: true as const } },
    },
    want: false,
  },
  {
    name: "a peer link that is down",
    change: { links: { nodePeer: link("v", { up: false }) } },
    want: false,
  },
])("--check unplugs for $name: $want", ({ change, want }) => {
  expect(diagnose(pathFacts(change)).isUnplugReason).toBe(want);
});

const SILENT_TRACES = [asked("inward", "nodePeer", "podNic", "tap")];

test.each([
  { dhcpRequests: undefined, want: /use an address of its own$/ },
  {
    dhcpRequests: 0,
    want: /assigned; the guest has sent no DHCP request since this NIC was wired$/,
  },
  { dhcpRequests: 1, want: /of its own; the guest has sent 1 DHCP request$/ },
  { dhcpRequests: 4, want: /of its own; the guest has sent 4 DHCP requests$/ },
])(
  "reports a silent guest without an agent after this number of DHCP requests: $dhcpRequests",
  (row) => {
    const { dhcpRequests, want } = row;
    const change = {
      guest: undefined,
      serves: true,
      traces: SILENT_TRACES,
      observed: { dhcpRequests },
    };
    const { hops } = diagnose(pathFacts(change));
    expect(hops.find(({ hop }) => hop === "guest")).toMatchObject({
      state: "unknown",
      why: expect.stringMatching(want) as string,
    });
  },
);

describe("a guest without an address", () => {
  const guest = { macs: [MAC], addresses: [] };
  test.each<{ name: string; change: PathChange; want: object }>([
    {
      name: "that requested none",
      change: { serves: true, observed: { dhcpRequests: 0 } },
      want: { state: "unknown", reason: "DhcpNotRequested" },
    },
    {
      name: "that requested one in vain",
      change: { serves: true, observed: { dhcpRequests: 2 } },
      want: { state: "dead", reason: "NoAddressInGuest" },
    },
    {
      name: "that requested one in vain, and does not answer for it",
      change: { serves: true, observed: { dhcpRequests: 2 }, traces: SILENT_TRACES },
      want: { state: "dead", reason: "NoAddressInGuest" },
    },
    {
      name: "that has just started",
      change: { serves: true, isBooting: true, observed: { dhcpRequests: 2 } },
      want: { state: "unknown", reason: "GuestBooting" },
    },
  ])("$name", ({ change, want }) => {
    const { hops, isUnplugReason } = diagnose(pathFacts({ guest, ...change }));
    expect(hops[0]).toMatchObject(want);
    expect(isUnplugReason).toBe(hops[0]?.state === "dead");
  });
});

describe("a silent guest without an agent", () => {
  test.each<{ name: string; change: PathChange; reason: string; command: string }>([
    {
      name: "is paused",
      change: { isPaused: true },
      reason: "GuestPaused",
      command: "patchbay unpause alpha -n blue-team",
    },
    {
      name: "has just started",
      change: { isBooting: true },
      reason: "GuestBooting",
      command: "patchbay console alpha -n blue-team",
    },
    {
      name: "requested no address",
      change: { observed: { dhcpRequests: 0 } },
      reason: "DhcpNotRequested",
      command: "dhclient DEV",
    },
    {
      name: "may have an address of its own",
      change: { observed: { dhcpRequests: 1 } },
      reason: "GuestAgentMissing",
      command: "patchbay console alpha -n blue-team",
    },
  ])("$name", ({ change, reason, command }) => {
    const facts = { guest: undefined, serves: true, traces: SILENT_TRACES, ...change };
    const { hops, firstDead, isUnplugReason } = diagnose(pathFacts(facts));
    expect(hops[0]).toMatchObject({ state: "unknown", reason });
    expect(hops[0]?.fix).toContain(`\`${command}\``);
    expect({ firstDead, isUnplugReason }).toEqual({ firstDead: undefined, isUnplugReason: false });
  });
});

test("a guest with an address and no default route is dead, even if it has just started", () => {
  const guest = { macs: [MAC], addresses: ["10.9.0.1"], hasDefaultRoute: false };
  const { hops } = diagnose(pathFacts({ guest, isBooting: true }));
  expect(hops[0]).toMatchObject({ state: "dead", reason: "NoDefaultRoute" });
});

const PROGRAMS =
  /^(?:apt|bridge|dhclient|ethtool|ip|iptables|kubectl|networkctl|nft|patchbay|sysctl|tc|tcpdump) /;
/** Reasons that no command can help to fix. */
const WITHOUT_COMMAND: readonly string[] = [];

test.each(Object.entries(DOCTOR_FIXES))("the fix of %s contains a command", (reason, fix) => {
  const commands = [...fix.matchAll(/`([^`]*)`/g)].map(([, command = ""]) => command);
  expect(commands.filter((command) => !PROGRAMS.test(command))).toEqual([]);
  expect(commands.length > 0).toBe(!WITHOUT_COMMAND.includes(reason));
});

test("a command in the pod runs in its network namespace, and quotes what a guest chose", () => {
  const values = { DEV: "eth0; reboot", MAC: "02:00:00:00:5e:01" };
  expect(printFix("set `ip link set dev DEV address MAC`", values, "4026532999")).toBe(
    "set `nsenter -n -t $(lsns -no PID 4026532999 | head -n 1) ip link set dev 'eth0; reboot' address 02:00:00:00:5e:01`",
  );
  expect(printFix("the MAC: `patchbay explain VM`", { VM: "it's" }, "1")).toBe(
    String.raw`the MAC: \`patchbay explain 'it'\''s'\``.replaceAll("\\`", "`"),
  );
});

test("reports the observation and the advice for a dead hop", () => {
  const { hops } = diagnose(pathFacts({ allowedAddresses: [] }));
  expect(hops.find(({ hop }) => hop === "tap")).toEqual({
    hop: "tap",
    name: "tap1",
    state: "dead",
    reason: "GuardRefuses",
    why: "the guest may not send from 10.9.0.1",
    fix: DOCTOR_FIXES.GuardRefuses.replace("VM -n NAMESPACE", "alpha -n blue-team"),
  });
});

test.each([
  {
    name: "a peer link that is down",
    change: { links: { nodePeer: link("veth7", { up: false }) } },
    command: "`ip link set dev veth7 up`",
  },
  {
    name: "a port without the VLAN",
    change: {
      links: {
        nodePeer: link("veth7", { master: "br0" }),
        nodeBridge: link("br0", { canFilterVlans: true }),
      },
    },
    command: "`bridge vlan add vid VLAN dev veth7 pvid untagged`",
  },
  {
    name: "an uplink without the guest's VLAN",
    change: {
      links: {
        nodePeer: link("veth7", { master: "br0", untaggedVlan: 7, vlans: [7] }),
        nodeBridge: link("br0", { canFilterVlans: true }),
        uplinks: [link("eno7", { vlans: [1] })],
      },
    },
    command: "`bridge vlan add vid 7 dev eno7`",
  },
  {
    name: "a fixed forwarding entry",
    change: {
      observed: { entries: [{ at: "node" as const, port: "eno1", mac: "02:00:00:00:5e:01" }] },
    },
    command: "`bridge fdb del 02:00:00:00:5e:01 dev eno1 master`",
  },
  {
    name: "a tap that is down",
    change: { links: { tap: link("tap7", { up: false }) } },
    command: "`nsenter -n -t $(lsns -no PID 4026532999 | head -n 1) ip link set dev tap7 up`",
  },
  {
    name: "a peer in no bridge",
    change: {
      links: {
        nodePeer: link("veth7"),
        nodeBridge: undefined,
        bridges: [link("br0"), link("br7", { addresses: ["10.9.0.254/24"] })],
      },
      traces: [asked("outward", "podNic", "nodePeer")],
      observed: { filters: [] },
    },
    command: "`ip link set dev veth7 master br7`",
  },
  {
    name: "the bridge without the VLAN",
    change: {
      links: {
        nodePeer: link("veth7", { master: "br0", untaggedVlan: 7, vlans: [7] }),
        nodeBridge: link("br0", { canFilterVlans: true }),
      },
      observed: { target: { address: "10.9.0.254", at: "bridge" as const } },
    },
    command: "`bridge vlan add vid 7 dev br0 self`",
  },
  {
    name: "an uplink that is down",
    change: { links: { uplinks: [link("eno7", { up: false })] } },
    command: "`ip link set dev eno7 up`",
  },
])("the fix of $name names the command with the link", ({ change, command }) => {
  const { hops, firstDead } = diagnose(pathFacts(change));
  expect(hops.find(({ hop }) => hop === firstDead)?.fix).toContain(command);
});

const BEYOND = trace("beyond", { probeSeenAt: ["nodePeer", "podNic", "tap"], repliedTo: [OTHER] });
const NOT_BEYOND = asked("beyond", "nodePeer", "podNic", "tap");

test.each<{ name: string; change: PathChange; want: object }>([
  {
    name: "whose gateway no host has",
    change: { observed: { guestRoute: { trace: NOT_BEYOND, requested: ["10.9.0.99"] } } },
    want: {
      state: "unknown",
      reason: "RouteElsewhere",
      why: expect.stringContaining("10.9.0.99, which does not answer") as string,
      fix: expect.stringContaining("default via 10.9.0.254 dev eth0`") as string,
    },
  },
  {
    name: "whose gateway is another host",
    change: { observed: { guestRoute: { trace: { ...BEYOND, repliedTo: [MAC] }, requested: [] } } },
    want: { state: "unknown", reason: "RouteElsewhere" },
  },
  {
    name: "with the right gateway",
    change: { observed: { guestRoute: { trace: BEYOND, requested: ["10.9.0.99"] } } },
    want: { state: "ok", reason: undefined },
  },
  {
    name: "that requests only its gateway",
    change: { observed: { guestRoute: { trace: NOT_BEYOND, requested: ["10.9.0.254"] } } },
    want: { state: "ok", reason: undefined },
  },
  {
    name: "that answers no ping",
    change: {
      traces: [asked("ping", "nodePeer", "podNic", "tap")],
      observed: { guestRoute: { trace: NOT_BEYOND, requested: ["10.9.0.99"] } },
    },
    want: { state: "ok", reason: undefined },
  },
  {
    name: "without an offered default route",
    change: {
      offersDefaultRoute: false,
      observed: { guestRoute: { trace: NOT_BEYOND, requested: ["10.9.0.99"] } },
    },
    want: { state: "ok", reason: undefined },
  },
  {
    name: "that runs Windows",
    change: {
      isWindows: true,
      observed: { guestRoute: { trace: NOT_BEYOND, requested: ["10.9.0.99"] } },
    },
    want: { state: "ok", reason: undefined },
  },
])("the default route of a guest $name", ({ change, want }) => {
  const { hops, isUnplugReason } = diagnose(pathFacts(change));
  expect({ reason: undefined, ...hops[0] }).toMatchObject(want);
  expect(isUnplugReason).toBe(false);
});
