// SPDX-License-Identifier: Apache-2.0
import type { BridgeWiring } from "@patchbay/core/nics";
import { describe, expect, test } from "vitest";
import { type LinkChange, printLinkChange, type WiredLink } from "../links.ts";
import {
  deriveBridgeMac,
  canCarryVm,
  isWired,
  planForwarding,
  planUnwiring,
  planWiring,
} from "./bridge-plan.ts";

const MAC = "02:00:00:00:00:0A";
const FREE: BridgeWiring = {
  kind: "bridge",
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1450,
  owner: 107,
  queues: 1,
};
const WIRING: BridgeWiring = {
  ...FREE,
  guard: { macs: [MAC.toLowerCase()], allowsServers: false },
};
const NIC: WiredLink = {
  name: "pod1",
  index: 2,
  kind: "veth",
  mac: MAC.toLowerCase(),
  mtu: 1450,
  up: true,
  carrier: true,
  addresses: [],
  noArp: false,
  isPlainBridge: false,
  learning: true,
  flooding: true,
  passesSwitchFrames: false,
};
const BRIDGE: WiredLink = {
  ...NIC,
  name: "k6t-1",
  index: 3,
  kind: "bridge",
  mac: "5e:00:00:00:00:0a",
  noArp: true,
  isPlainBridge: true,
};
const ENSLAVED: WiredLink = { ...NIC, master: "k6t-1", learning: false };
const TAP: WiredLink = {
  ...ENSLAVED,
  name: "tap1",
  index: 4,
  kind: "tun",
  mac: "5a:00:00:00:00:01",
};
const FORWARDED = [{ mac: MAC.toLowerCase(), device: "tap1", state: "static" }];

function index(...links: readonly WiredLink[]): ReadonlyMap<string, WiredLink> {
  return new Map(links.map((link) => [link.name, link]));
}

function printChanges(changes: readonly LinkChange[]): readonly string[] {
  return changes.map(printLinkChange);
}

describe("frames for the next bridge", () => {
  const masks = (wiring: BridgeWiring, passesSwitchFrames: boolean): readonly string[] => {
    const [tap, nic] = [TAP, ENSLAVED].map((link) => ({ ...link, passesSwitchFrames }));
    if (tap === undefined || nic === undefined) return [];
    return printChanges(planWiring(nic, index(nic, tap, BRIDGE), wiring));
  };
  const both = (mask: string): readonly string[] =>
    ["tap1", "pod1"].map((name) => `ip link set ${name} type bridge_slave group_fwd_mask ${mask}`);

  test.each([
    {
      name: "are enabled if the guest has no restrictions",
      wiring: FREE,
      passes: false,
      want: both("0xfffd"),
    },
    { name: "stay enabled", wiring: FREE, passes: true, want: [] },
    {
      name: "are disabled if the guest is restricted",
      wiring: WIRING,
      passes: true,
      want: both("0"),
    },
    { name: "stay disabled", wiring: WIRING, passes: false, want: [] },
  ])("$name", ({ wiring, passes, want }) => {
    expect(masks(wiring, passes)).toEqual(want);
  });
});

describe("the wiring plan", () => {
  test("creates bridge, tap and port from nothing, in this order", () => {
    expect(printChanges(planWiring(NIC, index(NIC), WIRING))).toEqual([
      "ip link add k6t-1 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
      "ip link set k6t-1 address 5e:00:00:00:00:0a addrgenmode none arp off",
      "ip link set k6t-1 up",
      "ip tuntap add dev tap1 mode tap user 107 group 107",
      "ip link set tap1 addrgenmode none",
      "ip link set tap1 mtu 1450",
      "ip link set tap1 master k6t-1",
      "ip link set tap1 type bridge_slave learning off",
      "ip link set tap1 up",
      "ip link set pod1 addrgenmode none",
      "ip addr flush dev pod1",
      "ip link set pod1 master k6t-1",
      "ip link set pod1 type bridge_slave learning off",
    ]);
  });

  test("is empty when everything exists", () => {
    expect(printChanges(planWiring(ENSLAVED, index(ENSLAVED, BRIDGE, TAP), WIRING))).toEqual([]);
  });

  test("sets the guest's MAC on a NIC that has another", () => {
    const nic = { ...NIC, mac: "0a:00:00:00:00:01" };
    expect(printChanges(planWiring(nic, index(nic), WIRING))).toContain(
      `ip link set pod1 address ${MAC}`,
    );
  });

  test("assigns the bridge its addresses, and an IPv6 link-local address if it serves IPv6", () => {
    const addresses = ["169.254.75.10/32", "fd00:9::/64"];
    const commands = printChanges(
      planWiring(NIC, index(NIC), { ...WIRING, replies: { addresses } }),
    );
    expect(commands.filter((command) => command.startsWith("ip addr add"))).toEqual([
      "ip addr add 169.254.75.10/32 dev k6t-1 noprefixroute",
      "ip addr add fd00:9::/64 dev k6t-1 nodad noprefixroute",
      "ip addr add fe80::5c00:ff:fe00:a/64 dev k6t-1 nodad",
    ]);
  });

  test("creates a tap with several queues for a NIC that has several", () => {
    expect(printChanges(planWiring(NIC, index(NIC), { ...WIRING, queues: 4 }))).toContain(
      "ip tuntap add dev tap1 mode tap multi_queue user 107 group 107",
    );
  });

  const part = { bridge: BRIDGE, tap: TAP, nic: ENSLAVED };

  test.each<{ name: string; change: Partial<typeof part>; commands: readonly string[] }>([
    {
      name: "has multicast snooping on",
      change: { bridge: { ...BRIDGE, isPlainBridge: false } },
      commands: ["ip link set k6t-1 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"],
    },
    {
      name: "has the guest's MAC on the bridge",
      change: { bridge: { ...BRIDGE, mac: MAC.toLowerCase() } },
      commands: ["ip link set k6t-1 address 5e:00:00:00:00:0a addrgenmode none arp off"],
    },
    {
      name: "has ARP on at the bridge",
      change: { bridge: { ...BRIDGE, noArp: false } },
      commands: ["ip link set k6t-1 address 5e:00:00:00:00:0a addrgenmode none arp off"],
    },
    {
      name: "has its bridge down",
      change: { bridge: { ...BRIDGE, up: false } },
      commands: ["ip link set k6t-1 up"],
    },
    {
      name: "has another MTU at the tap",
      change: { tap: { ...TAP, mtu: 1500 } },
      commands: ["ip link set tap1 mtu 1450"],
    },
    {
      name: "has learning on at the tap",
      change: { tap: { ...TAP, learning: true } },
      commands: ["ip link set tap1 type bridge_slave learning off"],
    },
    {
      name: "has its tap down",
      change: { tap: { ...TAP, up: false } },
      commands: ["ip link set tap1 up"],
    },
    {
      name: "has its tap on another bridge",
      change: { tap: { ...TAP, master: "br0" } },
      commands: [
        "ip link set tap1 addrgenmode none",
        "ip addr flush dev tap1",
        "ip link set tap1 master k6t-1",
        "ip link set tap1 type bridge_slave learning off",
      ],
    },
    {
      name: "has another MAC at the NIC",
      change: { nic: { ...ENSLAVED, mac: "0a:00:00:00:00:01" } },
      commands: [`ip link set pod1 address ${MAC}`],
    },
    {
      name: "has a different MAC at a NIC that may refuse a change while up",
      change: { nic: { ...ENSLAVED, kind: "", mac: "0a:00:00:00:00:01" } },
      commands: ["ip link set pod1 down", `ip link set pod1 address ${MAC}`, "ip link set pod1 up"],
    },
    {
      name: "has flooding off at the tap",
      change: { tap: { ...TAP, flooding: false } },
      commands: ["ip link set tap1 type bridge_slave flood on mcast_flood on bcast_flood on"],
    },
    {
      name: "has an address at the NIC",
      change: { nic: { ...ENSLAVED, addresses: ["10.9.0.101/24"] } },
      commands: ["ip link set pod1 addrgenmode none", "ip addr flush dev pod1"],
    },
    {
      name: "has learning on at the NIC",
      change: { nic: { ...ENSLAVED, learning: true } },
      commands: ["ip link set pod1 type bridge_slave learning off"],
    },
    {
      name: "has its NIC down",
      change: { nic: { ...ENSLAVED, up: false } },
      commands: ["ip link set pod1 up"],
    },
  ])("repairs a wiring that $name, which counts as incomplete", ({ change, commands }) => {
    const { bridge, tap, nic } = { ...part, ...change };
    expect(printChanges(planWiring(nic, index(nic, bridge, tap), WIRING))).toEqual(commands);
    expect(isWired(index(nic, bridge, tap), FORWARDED, WIRING)).toBe(false);
  });

  test.each([
    { name: "no entry for the guest", present: [] },
    { name: "only a learned entry", present: [{ ...FORWARDED[0], state: "" }] },
    {
      name: "an entry for the pod itself",
      present: [...FORWARDED, { ...FORWARDED[0], device: "pod1", state: "permanent" }],
    },
  ])("a wiring with $name counts as incomplete", ({ present }) => {
    const entries = present as typeof FORWARDED;
    expect(isWired(index(ENSLAVED, BRIDGE, TAP), entries, WIRING)).toBe(false);
  });

  test("a complete wiring counts as complete", () => {
    expect(isWired(index(ENSLAVED, BRIDGE, TAP), FORWARDED, WIRING)).toBe(true);
  });
});

describe("the wiring plan for a tap that awaits its guest", () => {
  const awaited: BridgeWiring = { ...WIRING, incomingPodUid: "pod-2" };
  const AWAY = "56:78:f7:1a:da:c7";
  const other = { ...ENSLAVED, mac: AWAY };
  const quiet = { ...TAP, flooding: false };

  test("disables flooding to the tap, and hides the guest's MAC from the network", () => {
    const commands = printChanges(planWiring(NIC, index(NIC), awaited));
    const silenced = "ip link set tap1 type bridge_slave flood off mcast_flood off bcast_flood off";
    expect(commands).toContain(silenced);
    expect(commands.indexOf(silenced)).toBeLessThan(commands.indexOf("ip link set tap1 up"));
    const addressed = `ip link set pod1 address ${AWAY}`;
    expect(commands.indexOf(addressed)).toBeGreaterThan(commands.indexOf("ip link set pod1 down"));
    expect(commands.indexOf(addressed)).toBeLessThan(
      commands.indexOf("ip link set pod1 master k6t-1"),
    );
    expect(commands.at(-1)).toBe("ip link set pod1 up");
  });

  test("does not change a NIC's own MAC", () => {
    const nic = { ...NIC, mac: "0a:00:00:00:00:01" };
    expect(printChanges(planWiring(nic, index(nic), awaited)).join()).not.toContain("pod1 address");
  });

  test("is detected completely, and not mistaken for the wiring of a present guest", () => {
    expect(isWired(index(other, BRIDGE, quiet), FORWARDED, awaited)).toBe(true);
    expect(isWired(index(other, BRIDGE, TAP), FORWARDED, awaited)).toBe(false);
    expect(isWired(index(ENSLAVED, BRIDGE, quiet), FORWARDED, awaited)).toBe(false);
    expect(isWired(index(other, BRIDGE, quiet), FORWARDED, WIRING)).toBe(false);
  });

  test("becomes the wiring of a present guest while the NIC stays up", () => {
    expect(printChanges(planWiring(other, index(other, BRIDGE, quiet), WIRING))).toEqual([
      "ip link set tap1 type bridge_slave flood on mcast_flood on bcast_flood on",
      `ip link set pod1 address ${MAC}`,
    ]);
  });

  test("does not choose the guest's MAC for the NIC", () => {
    const mac = "56:00:00:00:00:0a";
    const nic = { ...NIC, mac };
    const commands = printChanges(planWiring(nic, index(nic), { ...awaited, mac }));
    expect(commands.join()).toMatch(/pod1 address 52(?::[0-9a-f]{2}){5},/);
  });

  test("chooses another MAC in each pod, always the same in one pod", () => {
    const macIn = (incomingPodUid: string) =>
      /pod1 address (\S+)/.exec(
        printChanges(planWiring(NIC, index(NIC), { ...WIRING, incomingPodUid })).join("\n"),
      );
    expect(macIn("pod-2")?.[1]).toBe(AWAY);
    expect(macIn("pod-3")?.[1]).not.toBe(AWAY);
  });
});

describe("the forwarding plan", () => {
  const mac = MAC.toLowerCase();
  const entry = { mac, device: "tap1", state: "static" };

  test("moves the guest's MAC from the NIC to the tap when the NIC was just enslaved", () => {
    expect(printChanges(planForwarding(WIRING, undefined))).toEqual([
      `bridge fdb del ${mac} dev pod1 master`,
      `bridge fdb replace ${mac} dev tap1 master static`,
    ]);
  });

  test("is empty when the MAC is behind the tap", () => {
    expect(printChanges(planForwarding(WIRING, [entry]))).toEqual([]);
  });

  const other = "02:00:00:00:00:0b";

  test.each([
    { name: "are behind the NIC", more: { mac: other, device: "pod1", state: "" } },
    { name: "are behind the tap", more: { mac: other, device: "tap1", state: "" } },
  ])("does not change other MACs that $name", ({ more }) => {
    expect(printChanges(planForwarding(WIRING, [entry, more]))).toEqual([]);
  });

  test.each([
    {
      name: "only another MAC is behind the tap",
      present: [{ ...entry, mac: other }],
      want: [`bridge fdb replace ${mac} dev tap1 master static`],
    },
    {
      name: "the MAC is behind another port",
      present: [{ ...entry, device: "tap2" }],
      want: [`bridge fdb replace ${mac} dev tap1 master static`],
    },
    {
      name: "the NIC's entry still exists",
      present: [entry, { mac, device: "pod1", state: "permanent" }],
      want: [`bridge fdb del ${mac} dev pod1 master`],
    },
    {
      name: "the MAC is only learned",
      present: [{ mac, device: "tap1", state: "" }],
      want: [`bridge fdb replace ${mac} dev tap1 master static`],
    },
  ])("repairs the entries when $name", ({ present, want }) => {
    expect(printChanges(planForwarding(WIRING, present))).toEqual(want);
  });
});

test("the unwiring plan removes the tap before its bridge, and only existing links", () => {
  expect(printChanges(planUnwiring([ENSLAVED, BRIDGE, TAP], WIRING))).toEqual([
    "ip link del tap1",
    "ip link del k6t-1",
  ]);
  expect(printChanges(planUnwiring([NIC], WIRING))).toEqual([]);
});

test.each(["ipvlan", "ipvtap"])("a NIC of kind %s cannot carry a VM", (kind) => {
  expect(canCarryVm({ ...NIC, kind })).toBe(false);
});

test("the bridge's MAC is local and never the guest's", () => {
  expect(deriveBridgeMac("5e:00:00:00:00:01")).toBe("5a:00:00:00:00:01");
  expect(deriveBridgeMac("02:AA:00:00:00:01")).toBe("5e:aa:00:00:00:01");
});
