// SPDX-License-Identifier: Apache-2.0
// Faults in the pod, except at the tap.
import { run } from "@patchbay/support";
import { GATEWAY } from "./doctor-scene.ts";
import {
  ip,
  link,
  bridge,
  nft,
  gatewayEntry,
  neighbor,
  FORWARD,
  type PlantedFault,
} from "./plant.ts";
import { MAC } from "../links.ts";

export const IN_POD: readonly PlantedFault[] = [
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
    name: "foreign rule against all packets in the pod",
    hop: "translation",
    reason: "FramesLost",
    binding: "masquerade",
    plant: nft("pod", "ip", [FORWARD, "drop"]),
  },
  {
    name: "foreign rule against the guest's packets in the pod",
    hop: "translation",
    reason: "FramesLost",
    binding: "masquerade",
    plant: nft("pod", "inet", [FORWARD, 'iifname "k6t-1" drop']),
  },
  {
    name: "foreign rule against packets to the guest in the pod",
    hop: "translation",
    reason: "FramesLost",
    binding: "masquerade",
    plant: nft("pod", "ip", [FORWARD, "ip daddr 10.0.2.2 counter drop"]),
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
