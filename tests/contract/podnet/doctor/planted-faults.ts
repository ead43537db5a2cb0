// SPDX-License-Identifier: Apache-2.0
// Faults in the path of a NIC, and the hop that the doctor must name for each.
import type { HopName } from "@patchbay/core/doctor";
import { run } from "@patchbay/support";
import { expect, test } from "vitest";
import { ADDRESS, GATEWAY, inScene, type DoctorScene, type FactsChange } from "./doctor-scene.ts";
import { MAC } from "../links.ts";

interface PlantedFault {
  readonly name: string;
  readonly hop: HopName;
  readonly reason: string;
  /** Direction that the report must name. */
  readonly direction?: "toward the guest" | "from the guest";
  readonly plant: (scene: DoctorScene) => void | Promise<void>;
  /** The guest's binding; `bridge` by default. */
  readonly binding?: "masquerade";
  /** Facts that differ from the faultless case. */
  readonly facts?: FactsChange;
}

type Plant = PlantedFault["plant"];
type Place = "pod" | "host" | "guest" | "lan";

/** `ip` in one of the namespaces. */
function ip(place: Place, ...words: readonly string[]): Plant {
  return (scene) => void run("ip", "-n", scene[place], ...words);
}

function link(place: Place, name: string, ...words: readonly string[]): Plant {
  return ip(place, "link", "set", name, ...words);
}

function bridge(place: Place, ...words: readonly string[]): Plant {
  return (scene) => void run("bridge", "-n", scene[place], ...words);
}

type Text = string | ((scene: DoctorScene) => string);

/** A rule in its own table; `hook`: its place in nft's syntax. */
function nft(place: Place, family: string, [hook, rule]: readonly [Text, Text]): Plant {
  const inScene = (text: Text, scene: DoctorScene): string =>
    typeof text === "string" ? text : text(scene);
  return (scene) => {
    const [at, what] = [inScene(hook, scene), inScene(rule, scene)];
    const text = `add table ${family} planted; add chain ${family} planted c { type filter hook ${at} ; }; add rule ${family} planted c ${what}`;
    run("ip", "netns", "exec", scene[place], "nft", text);
  };
}

function peerLink(...words: readonly string[]): Plant {
  return (scene) => void run("ip", "-n", scene.host, "link", "set", scene.peer, ...words);
}

function inOrder(...plants: readonly Plant[]): Plant {
  return async (scene) => {
    for (const plant of plants) await plant(scene);
  };
}

const FORWARD = "forward priority 0";
/** Half of the frames at random, as `netem loss 50%` drops them. */
const HALF = "numgen random mod 2 0 drop";
const EVERY_FIFTH = "numgen inc mod 5 0 drop";
const NO_HOST = "02:00:00:00:5e:88";

/** After the node became the network's gateway. */
function routed(...plants: readonly Plant[]): Plant {
  return inOrder(
    (scene) => {
      scene.routeByNode();
    },
    ...plants,
  );
}

function gatewayMac({ lan }: DoctorScene): string {
  const words = run("ip", "-j", "-n", lan, "link", "show", "dev", "lan0");
  const [link] = JSON.parse(words) as readonly { readonly address: string }[];
  return link?.address ?? "";
}

/** A static forwarding entry for the gateway's MAC. */
function gatewayEntry(place: Place, port: Text): Plant {
  return (scene) => {
    const device = typeof port === "string" ? port : port(scene);
    const words = [gatewayMac(scene), "dev", device, "master", "static", "sticky"];
    run("bridge", "-n", scene[place], "fdb", "replace", ...words);
  };
}

function neighbor(place: Place, address: string, device: string): Plant {
  return ip(
    place,
    "neigh",
    "replace",
    address,
    "lladdr",
    NO_HOST,
    "dev",
    device,
    "nud",
    "permanent",
  );
}

function ebtables(...words: readonly string[]): Plant {
  return (scene) => void run("ip", "netns", "exec", scene.host, "ebtables", ...words);
}

const IN_GUEST: readonly PlantedFault[] = [
  {
    name: "link down in the guest",
    hop: "guest",
    reason: "GuestSilent",
    plant: link("guest", "eth0", "down"),
  },
  {
    name: "wrong MAC in the guest",
    hop: "guest",
    reason: "WrongMacInGuest",
    plant: link("guest", "eth0", "address", "02:00:00:00:5e:77"),
  },
  {
    name: "wrong MAC in a guest without an agent",
    hop: "guest",
    reason: "WrongMacInGuest",
    plant: (scene) => {
      run("ip", "-n", scene.guest, "link", "set", "eth0", "address", "02:00:00:00:5e:77");
      scene.hasAgent = false;
    },
  },
  {
    name: "no address in the guest",
    hop: "guest",
    reason: "NoAddressInGuest",
    plant: (scene) => scene.serveDhcp(true),
  },
  {
    name: "no default route in the guest",
    hop: "guest",
    reason: "NoDefaultRoute",
    plant: ip("guest", "route", "del", "default"),
  },
  {
    name: "firewall in the guest",
    hop: "guest",
    reason: "GuestSilent",
    plant: nft("guest", "arp", ["input priority 0", "drop"]),
  },
  {
    name: "duplicate address",
    hop: "guest",
    reason: "DuplicateAddress",
    plant: ip("lan", "addr", "add", `${ADDRESS}/32`, "dev", "lan0"),
  },
  {
    name: "firewall in the guest against IP",
    hop: "guest",
    reason: "GuestRefusesIp",
    plant: nft("guest", "ip", ["input priority 0", "drop"]),
  },
  {
    name: "firewall against IP behind the pod",
    hop: "guest",
    reason: "GuestRefusesIp",
    binding: "masquerade",
    plant: nft("guest", "ip", ["input priority 0", "drop"]),
  },
  {
    name: "gateway's neighbor entry in the guest",
    hop: "guest",
    reason: "NeighborWrong",
    plant: neighbor("guest", GATEWAY, "eth0"),
  },
  {
    name: "loss of every fifth packet in the guest",
    hop: "guest",
    reason: "LossyLink",
    plant: nft("guest", "ip", ["input priority 0", EVERY_FIFTH]),
  },
  {
    name: "link down on the device",
    hop: "device",
    reason: "DeviceLinkDown",
    plant: link("guest", "wire0", "down"),
    facts: { device: { linkUp: false, mac: MAC, mtu: 1500 } },
  },
];

const AT_TAP: readonly PlantedFault[] = [
  {
    name: "tap down",
    hop: "tap",
    reason: "TapDown",
    plant: link("pod", "tap1", "down"),
  },
  {
    name: "tap that no process has open",
    hop: "tap",
    reason: "TapNotOpen",
    plant: link("guest", "wire0", "down"),
  },
  {
    name: "tap deleted",
    hop: "tap",
    reason: "TapMissing",
    plant: (scene) => {
      run("ip", "-n", scene.pod, "link", "del", "tap1");
      scene.hasAgent = false;
    },
  },
  {
    name: "tap out of the bridge",
    hop: "tap",
    reason: "TapOutOfBridge",
    plant: link("pod", "tap1", "nomaster"),
  },
  {
    name: "MTU smaller at the tap",
    hop: "tap",
    reason: "MtuSmaller",
    plant: link("pod", "tap1", "mtu", "1400"),
  },
  {
    name: "guard that blocks a second address",
    hop: "tap",
    reason: "GuardRefuses",
    plant: async (scene) => {
      await scene.guardGuest();
      run("ip", "-n", scene.guest, "addr", "add", "10.9.0.77/24", "dev", "eth0");
    },
  },
  {
    name: "second address of a guest without agent",
    hop: "tap",
    reason: "GuardRefuses",
    plant: async (scene) => {
      await scene.guardGuest();
      run("ip", "-n", scene.guest, "addr", "add", "10.9.0.77/32", "dev", "eth0");
      scene.hasAgent = false;
      scene.say("guest", "busybox", "ping", "-q", "-I", "10.9.0.77", GATEWAY);
    },
  },
  {
    name: "guard removed",
    hop: "tap",
    reason: "RulesChanged",
    plant: async (scene) => {
      await scene.guardGuest();
      run("ip", "netns", "exec", scene.pod, "nft", "delete table netdev patchbay-tap1");
    },
  },
  {
    name: "frames dropped at the tap",
    hop: "tap",
    reason: "FramesLost",
    plant: nft("pod", "netdev", ['ingress device "tap1" priority 0', "drop"]),
  },
  {
    name: "loss of every fifth frame at the tap",
    hop: "tap",
    reason: "LossyLink",
    plant: nft("pod", "netdev", ['ingress device "tap1" priority 0', EVERY_FIFTH]),
  },
];

const HALF_LOST_AT_TAP: readonly PlantedFault[] = (["bridge", "masquerade"] as const).flatMap(
  (binding) => {
    const variant = binding === "masquerade" ? ({ binding } as const) : {};
    return [
      {
        name: `half of the frames toward the guest lost: ${binding}`,
        hop: "tap",
        reason: "LossyLink",
        direction: "toward the guest",
        ...variant,
        plant: nft("pod", "netdev", ['egress device "tap1" priority 0', HALF]),
      },
      {
        name: `half of the guest's frames lost: ${binding}`,
        hop: "tap",
        reason: "LossyLink",
        direction: "from the guest",
        ...variant,
        plant: nft("pod", "netdev", ['ingress device "tap1" priority 0', HALF]),
      },
    ];
  },
);

const IN_POD: readonly PlantedFault[] = [
  {
    name: "pod bridge down",
    hop: "podBridge",
    reason: "BridgeDown",
    plant: link("pod", "k6t-1", "down"),
  },
  {
    name: "static entry of the guest deleted",
    hop: "podBridge",
    reason: "EntryMissing",
    plant: bridge("pod", "fdb", "del", MAC, "dev", "tap1", "master"),
  },
  {
    name: "FDB entry of the guest on the pod NIC",
    hop: "podBridge",
    reason: "EntryMissing",
    plant: bridge("pod", "fdb", "replace", MAC, "dev", "pod1", "master", "permanent"),
  },
  {
    name: "learning at the tap",
    hop: "podBridge",
    reason: "LearningOn",
    plant: bridge("pod", "link", "set", "dev", "tap1", "learning", "on"),
  },
  {
    name: "frames dropped in the pod",
    hop: "podBridge",
    reason: "FramesLost",
    plant: nft("pod", "bridge", [FORWARD, 'oifname "tap1" drop']),
  },
  {
    name: "the guest's frames dropped in the pod",
    hop: "podBridge",
    reason: "FramesLost",
    plant: nft("pod", "bridge", [FORWARD, 'iifname "tap1" drop']),
  },
  {
    name: "FDB entry of the gateway on the tap",
    hop: "podBridge",
    reason: "EntryElsewhere",
    plant: gatewayEntry("pod", "tap1"),
  },
  {
    name: "neighbor entry of the guest in the pod",
    hop: "podBridge",
    reason: "NeighborWrong",
    binding: "masquerade",
    plant: neighbor("pod", "10.0.2.2", "k6t-1"),
  },
  {
    name: "DHCP server of the pod dead",
    hop: "addresses",
    reason: "AddressServerDown",
    plant: ip("guest", "addr", "flush", "dev", "eth0"),
    facts: { serves: false },
  },
  {
    name: "range of the DHCP server exhausted",
    hop: "addresses",
    reason: "NobodyOffers",
    plant: (scene) => scene.serveDhcp(false),
  },
  {
    name: "address of the pod's bridge deleted",
    hop: "podBridge",
    reason: "BridgeChanged",
    binding: "masquerade",
    plant: ip("pod", "addr", "flush", "dev", "k6t-1"),
  },
  {
    name: "masquerade rules deleted",
    hop: "translation",
    reason: "RulesChanged",
    binding: "masquerade",
    plant: (scene) => {
      run("ip", "netns", "exec", scene.pod, "nft", "delete table inet patchbay-pod1");
    },
  },
  {
    name: "forwarding off behind the pod",
    hop: "translation",
    reason: "RulesChanged",
    binding: "masquerade",
    plant: (scene) => {
      const setting = "net.ipv4.conf.pod1.forwarding=0";
      run("ip", "netns", "exec", scene.pod, "busybox", "sysctl", "-w", setting);
    },
  },
  {
    name: "rule against the guest's packets in the pod",
    hop: "translation",
    reason: "RouteMissing",
    binding: "masquerade",
    plant: ip("pod", "rule", "add", "prohibit"),
  },
  {
    name: "address of the pod NIC deleted",
    hop: "podNic",
    reason: "NicAddressMissing",
    binding: "masquerade",
    plant: ip("pod", "addr", "flush", "dev", "pod1"),
    facts: { podAddresses: ["10.9.0.5"] },
  },
  {
    name: "pod NIC deleted",
    hop: "podNic",
    reason: "NicMissing",
    plant: ip("pod", "link", "del", "pod1"),
  },
  {
    name: "pod NIC down",
    hop: "podNic",
    reason: "NicDown",
    plant: link("pod", "pod1", "down"),
  },
  {
    name: "pod NIC out of the bridge",
    hop: "podNic",
    reason: "NicOutOfBridge",
    plant: link("pod", "pod1", "nomaster"),
  },
  {
    name: "wrong MAC at the pod NIC",
    hop: "podNic",
    reason: "NicWrongMac",
    plant: link("pod", "pod1", "address", "02:00:00:00:5e:78"),
  },
  {
    name: "MTU smaller at the pod NIC",
    hop: "podNic",
    reason: "MtuSmaller",
    plant: link("pod", "pod1", "mtu", "1400"),
  },
  {
    name: "frames dropped as they leave the pod NIC",
    hop: "podNic",
    reason: "FramesLost",
    plant: nft("pod", "netdev", ['egress device "pod1" priority 0', "drop"]),
  },
  {
    name: "frames dropped as they enter the pod NIC",
    hop: "podNic",
    reason: "FramesLost",
    plant: nft("pod", "netdev", ['ingress device "pod1" priority 0', "drop"]),
  },
  {
    name: "gateway's neighbor entry in the pod",
    hop: "podNic",
    reason: "NeighborWrong",
    binding: "masquerade",
    plant: neighbor("pod", GATEWAY, "pod1"),
  },
];

const ON_NODE: readonly PlantedFault[] = [
  {
    name: "peer down",
    hop: "nodePeer",
    reason: "PeerDown",
    plant: peerLink("down"),
  },
  {
    name: "peer out of its bridge",
    hop: "nodePeer",
    reason: "PeerOutOfBridge",
    plant: peerLink("nomaster"),
  },
  {
    name: "MTU smaller at the peer",
    hop: "nodePeer",
    reason: "MtuSmaller",
    plant: peerLink("mtu", "1400"),
  },
  {
    name: "peer that does not forward",
    hop: "nodePeer",
    reason: "PortBlocked",
    plant: inOrder(
      peerLink("nomaster"),
      // Time that spanning tree listens before a port forwards, hundredths of a second.
      link("host", "br0", "type", "bridge", "stp_state", "1", "forward_delay", "3000"),
      peerLink("master", "br0"),
    ),
  },
  {
    name: "frames dropped as they enter the node",
    hop: "nodePeer",
    reason: "FramesLost",
    plant: nft("host", "netdev", [({ peer }) => `ingress device "${peer}" priority 0`, "drop"]),
  },
  {
    name: "frames dropped as they leave the node",
    hop: "nodePeer",
    reason: "FramesLost",
    plant: nft("host", "netdev", [({ peer }) => `egress device "${peer}" priority 0`, "drop"]),
  },
  {
    name: "loss of every fifth frame at the peer",
    hop: "nodePeer",
    reason: "LossyLink",
    plant: nft("host", "netdev", [
      ({ peer }) => `ingress device "${peer}" priority 0`,
      EVERY_FIFTH,
    ]),
  },
  {
    name: "half of the frames toward the pod lost at the peer",
    hop: "nodePeer",
    reason: "LossyLink",
    direction: "toward the guest",
    plant: nft("host", "netdev", [({ peer }) => `egress device "${peer}" priority 0`, HALF]),
  },
  {
    name: "peer in another namespace",
    hop: "nodePeer",
    reason: "PeerElsewhere",
    plant: (scene) => {
      run("ip", "-n", scene.host, "link", "set", scene.peer, "netns", scene.lan);
    },
  },
  {
    name: "peer that is up in another namespace",
    hop: "nodePeer",
    reason: "PeerElsewhere",
    plant: (scene) => {
      const elsewhere = scene.namespaces.add(`x${scene.pod.slice(-3)}`);
      run("ip", "-n", scene.host, "link", "set", scene.peer, "netns", elsewhere);
      run("ip", "-n", elsewhere, "link", "set", scene.peer, "up");
    },
  },
  {
    name: "bridge of the node down",
    hop: "nodeBridge",
    reason: "NodeBridgeDown",
    plant: link("host", "br0", "down"),
  },
  {
    name: "node firewall that blocks all traffic",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: nft("host", "bridge", [FORWARD, "drop"]),
  },
  {
    name: "node firewall that blocks IPv4",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: nft("host", "bridge", [FORWARD, "ether type ip drop"]),
  },
  {
    name: "loss of replies only",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: nft("host", "bridge", [FORWARD, ({ peer }) => `oifname "${peer}" drop`]),
  },
  {
    name: "the guest's MAC behind another port",
    hop: "nodeBridge",
    reason: "EntryElsewhere",
    plant: bridge("host", "fdb", "replace", MAC, "dev", "up1", "master", "static", "sticky"),
  },
  {
    name: "the gateway's MAC behind another port",
    hop: "nodeBridge",
    reason: "EntryElsewhere",
    plant: gatewayEntry("host", ({ peer }) => peer),
  },
  {
    name: "neighbor entry of the guest on the node",
    hop: "nodeBridge",
    reason: "NeighborWrong",
    plant: routed(neighbor("host", ADDRESS, "br0")),
  },
  {
    name: "ebtables rule against forwarded frames",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: ebtables("-A", "FORWARD", "-p", "IPv4", "-j", "DROP"),
  },
  {
    name: "ebtables rule against incoming frames",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: routed(ebtables("-t", "nat", "-A", "PREROUTING", "-j", "DROP")),
  },
  {
    name: "loss of every fifth frame in the bridge",
    hop: "nodeBridge",
    reason: "LossyLink",
    plant: nft("host", "bridge", [FORWARD, EVERY_FIFTH]),
  },
];

const BEYOND: readonly PlantedFault[] = [
  {
    name: "bridge without uplink",
    hop: "uplink",
    reason: "UplinkMissing",
    plant: link("host", "up1", "nomaster"),
  },
  {
    name: "ports isolated from each other",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: (scene) => {
      for (const port of [scene.peer, "up1"]) {
        run("bridge", "-n", scene.host, "link", "set", "dev", port, "isolated", "on");
      }
    },
  },
  {
    name: "uplink that broadcasts do not leave by",
    hop: "nodeBridge",
    reason: "FramesLost",
    plant: bridge("host", "link", "set", "dev", "up1", "bcast_flood", "off"),
  },
  {
    name: "uplink down",
    hop: "uplink",
    reason: "UplinkDown",
    plant: link("host", "up1", "down"),
  },
  {
    name: "uplink without carrier",
    hop: "uplink",
    reason: "NoCarrier",
    plant: link("host", "up0", "down"),
  },
  {
    name: "MTU smaller at the uplink",
    hop: "uplink",
    reason: "MtuSmaller",
    plant: link("host", "up1", "mtu", "1400"),
  },
  {
    name: "half of the frames lost as they enter the uplink",
    hop: "uplink",
    reason: "LossyLink",
    direction: "from the guest",
    plant: nft("host", "netdev", ['egress device "up1" priority 0', HALF]),
  },
  {
    name: "half of the frames lost as they leave the uplink",
    hop: "uplink",
    reason: "LossyLink",
    direction: "toward the guest",
    plant: nft("host", "netdev", ['ingress device "up1" priority 0', HALF]),
  },
  {
    name: "gateway without an address",
    hop: "gateway",
    reason: "GatewaySilent",
    plant: ip("lan", "addr", "del", `${GATEWAY}/24`, "dev", "lan0"),
  },
  {
    name: "gateway that another host claims",
    hop: "gateway",
    reason: "GatewayClaimed",
    plant: (scene) => {
      scene.addClaimant(GATEWAY);
    },
  },
  {
    name: "node's gateway address claimed by a host",
    hop: "gateway",
    reason: "GatewayClaimed",
    plant: routed((scene) => {
      scene.addClaimant(GATEWAY);
    }),
  },
  {
    name: "neighbor entry of the guest at the gateway",
    hop: "gateway",
    reason: "NeighborWrong",
    plant: neighbor("lan", ADDRESS, "lan0"),
  },
  {
    name: "gateway's address deleted from the node",
    hop: "gateway",
    reason: "GatewayAddressMissing",
    plant: routed(ip("host", "addr", "del", `${GATEWAY}/24`, "dev", "br0")),
  },
  {
    name: "gateway's address with a wrong prefix",
    hop: "gateway",
    reason: "GatewayPrefixWrong",
    plant: routed(
      ip("host", "addr", "del", `${GATEWAY}/24`, "dev", "br0"),
      ip("host", "addr", "add", `${GATEWAY}/30`, "dev", "br0"),
    ),
  },
  {
    name: "route to the guest's network deleted on the node",
    hop: "gateway",
    reason: "RouteMissing",
    plant: routed(ip("host", "route", "del", "10.9.0.0/24", "dev", "br0")),
  },
  {
    name: "route to the guest elsewhere on the node",
    hop: "gateway",
    reason: "RouteMissing",
    plant: routed(ip("host", "route", "add", `${ADDRESS}/32`, "dev", "ex0")),
  },
  {
    name: "node without forwarding",
    hop: "gateway",
    reason: "ForwardingRefused",
    plant: routed(nft("host", "ip", [FORWARD, "drop"])),
  },
  {
    name: "node that forwards no replies",
    hop: "gateway",
    reason: "ForwardingRefused",
    plant: routed(nft("host", "ip", [FORWARD, 'iifname "ex0" drop'])),
  },
  {
    name: "node masquerade deleted",
    hop: "gateway",
    reason: "MasqueradeMissing",
    plant: routed((scene) => {
      run("ip", "netns", "exec", scene.host, "nft", "delete table ip masq");
    }),
  },
  {
    name: "masquerade behind the pod deleted",
    hop: "gateway",
    reason: "MasqueradeMissing",
    binding: "masquerade",
    plant: routed((scene) => {
      run("ip", "netns", "exec", scene.host, "nft", "delete table ip masq");
    }),
  },
  {
    name: "loss of every fifth packet at the gateway",
    hop: "gateway",
    reason: "LossyLink",
    plant: nft("lan", "ip", ["input priority 0", EVERY_FIFTH]),
  },
  {
    name: "wrong VLAN at the switch's port",
    hop: "gateway",
    reason: "GatewaySilent",
    plant: (scene) => scene.putSwitch({ uplink: 10, gateway: 20 }),
  },
  {
    name: "switch that does not complete checksums",
    hop: "gateway",
    reason: "ChecksumUnfinished",
    plant: (scene) => scene.putSwitch({ uplink: 10, gateway: 10 }),
  },
  {
    name: "MTU smaller beyond the node",
    hop: "gateway",
    reason: "MtuSmaller",
    plant: link("host", "up0", "mtu", "1400"),
  },
];

/** Numbers the faults, so that several scenes can exist at once. */
type NumberedFault = PlantedFault & { readonly number: number };

const GROUPS = [IN_GUEST, [...AT_TAP, ...HALF_LOST_AT_TAP], IN_POD, ON_NODE, BEYOND];
const PLANTED: readonly NumberedFault[] = GROUPS.flat().map((fault, number) => ({
  ...fault,
  number,
}));
const FIRST_OF_GROUPS: readonly string[] = GROUPS.flatMap(([fault]) => fault?.name ?? []);

/** One fault of each part of the path, for the short form of the tests. */
export const FEW_FAULTS = PLANTED.filter(({ name }) => FIRST_OF_GROUPS.includes(name));
export const OTHER_FAULTS = PLANTED.filter(({ name }) => !FIRST_OF_GROUPS.includes(name));

/** Defines a test per fault: the doctor names the first hop at which frames are dropped, and why. */
export function testPlantedFaults(faults: readonly NumberedFault[]): void {
  const isRandom = ({ direction }: NumberedFault): boolean => direction !== undefined;
  testFaults(
    faults.filter((fault) => !isRandom(fault)),
    {},
  );
  // A random loss hits all frames of a probe once in a while.
  testFaults(faults.filter(isRandom), { retry: 2 });
}

function testFaults(faults: readonly NumberedFault[], options: { readonly retry?: number }): void {
  test.each(faults)("names $hop: $name", options, async (fault) => {
    const { hop, reason, direction = "", plant, facts, binding, number } = fault;
    const report = await inScene(number, async (scene) => {
      await scene.wire(binding);
      await plant(scene);
      return scene.examine(facts);
    });
    const first = report.hops.find(({ state }) => state === "dead");
    expect({ hop: first?.hop, reason: first?.reason }).toEqual({ hop, reason });
    expect(first?.why).toContain(direction);
  });
}
