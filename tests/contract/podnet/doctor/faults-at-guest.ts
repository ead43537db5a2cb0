// SPDX-License-Identifier: Apache-2.0
// Faults in the guest and at its tap.
import { run } from "@patchbay/support";
import { ADDRESS, GATEWAY } from "./doctor-scene.ts";
import { ip, link, nft, neighbor, HALF, EVERY_FIFTH, type PlantedFault } from "./plant.ts";
import { MAC } from "../links.ts";

export const IN_GUEST: readonly PlantedFault[] = [
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
    name: "default route through an address that no host has",
    hop: "guest",
    reason: "RouteElsewhere",
    isUncertain: true,
    plant: ip("guest", "route", "replace", "default", "via", "10.9.0.99"),
  },
  {
    name: "default route through an address that no host has, behind the pod",
    hop: "guest",
    reason: "RouteElsewhere",
    isUncertain: true,
    binding: "masquerade",
    plant: ip("guest", "route", "replace", "default", "via", "10.0.2.99"),
  },
  {
    name: "default route through another host",
    hop: "guest",
    reason: "RouteElsewhere",
    isUncertain: true,
    plant: (scene) => {
      scene.addClaimant("10.9.0.77");
      run("ip", "-n", scene.guest, "route", "replace", "default", "via", "10.9.0.77");
    },
  },
  {
    name: "link down on the device",
    hop: "device",
    reason: "DeviceLinkDown",
    plant: link("guest", "wire0", "down"),
    facts: { device: { linkUp: false, mac: MAC, mtu: 1500 } },
  },
];

const FIXED_AT_TAP: readonly PlantedFault[] = [
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

export const AT_TAP: readonly PlantedFault[] = [...FIXED_AT_TAP, ...HALF_LOST_AT_TAP];
