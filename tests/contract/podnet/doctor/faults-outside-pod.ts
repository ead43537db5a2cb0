// SPDX-License-Identifier: Apache-2.0
// Faults on the node and beyond it.
import { run } from "@patchbay/support";
import { ADDRESS, GATEWAY } from "./doctor-scene.ts";
import {
  ip,
  link,
  bridge,
  nft,
  peerLink,
  inOrder,
  routed,
  gatewayEntry,
  neighbor,
  ebtables,
  FORWARD,
  HALF,
  EVERY_FIFTH,
  type PlantedFault,
} from "./plant.ts";
import { MAC } from "../links.ts";

export const ON_NODE: readonly PlantedFault[] = [
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
    name: "peer to which the bridge sends no broadcasts",
    hop: "nodePeer",
    reason: "BroadcastsBlocked",
    plant: ({ host, peer }) => {
      run("bridge", "-n", host, "link", "set", "dev", peer, "bcast_flood", "off");
    },
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

export const BEYOND: readonly PlantedFault[] = [
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
    name: "default route of the node deleted",
    hop: "gateway",
    reason: "RouteMissing",
    isUncertain: true,
    plant: routed(ip("host", "route", "del", "default")),
  },
  {
    name: "default route of the node deleted behind the pod",
    hop: "gateway",
    reason: "RouteMissing",
    isUncertain: true,
    binding: "masquerade",
    plant: routed(ip("host", "route", "del", "default")),
  },
  {
    name: "own uplink of the node down",
    hop: "gateway",
    reason: "UplinkDown",
    plant: routed(link("host", "ex0", "down")),
  },
  {
    name: "own uplink of the node without carrier",
    hop: "gateway",
    reason: "NoCarrier",
    plant: routed(link("lan", "ex1", "down")),
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
