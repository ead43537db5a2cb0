// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { type LinkChange, printLinkChange, type WiredLink } from "../links.ts";
import { parseSysctls, printSysctls } from "../sysctls.ts";
import { planAddresses, planSysctls, planSysctlReset } from "./masquerade-plan.ts";

const WIRING = {
  kind: "masquerade",
  podInterfaceName: "eth0",
  bridgeName: "k6t-eth0",
  tapName: "tap0",
  mac: "02:00:00:00:5e:01",
  mtu: 1400,
  ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
  ipv6: { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" },
  ports: [],
} as const;

function bridgeWith(...addresses: readonly string[]): ReadonlyMap<string, WiredLink> {
  const bridge = { name: "k6t-eth0", index: 3, kind: "bridge", mac: "", mtu: 1400, up: true };
  const rest = {
    carrier: true,
    noArp: false,
    isPlainBridge: true,
    learning: true,
    flooding: true,
    passesSwitchFrames: false,
    addresses,
  };
  return new Map([["k6t-eth0", { ...bridge, ...rest }]]);
}

function printChanges(changes: readonly LinkChange[]): readonly string[] {
  return changes.map(printLinkChange);
}

describe("the gateway's addresses", () => {
  test("are added if they are missing", () => {
    expect(printChanges(planAddresses(bridgeWith(), WIRING))).toEqual([
      "ip addr add 10.0.2.1/24 dev k6t-eth0",
      "ip addr add fd10:0:2::1/120 dev k6t-eth0 nodad",
      "ip addr add fe80::1/64 dev k6t-eth0 nodad",
    ]);
    expect(printChanges(planAddresses(bridgeWith("10.0.2.1/24", "fe80::1/64"), WIRING))).toEqual([
      "ip addr add fd10:0:2::1/120 dev k6t-eth0 nodad",
    ]);
  });

  test("belong to the families that the pod has", () => {
    const { kind, podInterfaceName, bridgeName, tapName, mac, mtu, ipv4, ports } = WIRING;
    const only = { kind, podInterfaceName, bridgeName, tapName, mac, mtu, ipv4, ports };
    expect(printChanges(planAddresses(bridgeWith("10.0.2.1/24"), only))).toEqual([]);
  });
});

describe("the sysctl settings of the namespace", () => {
  const ALL = [
    "bridge/bridge-nf-call-iptables:1",
    "ipv4/conf/eth0/forwarding:1",
    "ipv4/conf/k6t-eth0/forwarding:0",
    "ipv4/conf/k6t-eth0/route_localnet:0",
    "ipv6/conf/eth0/accept_ra:1",
    "ipv6/conf/k6t-eth0/disable_ipv6:0",
    "ipv6/conf/all/forwarding:0",
    "",
  ].join("\n");

  test("are changed if they differ; router advertisements are enabled before IPv6 forwarding", () => {
    expect(printSysctls(planSysctls(parseSysctls(ALL), WIRING)).split("\n")).toEqual([
      "bridge/bridge-nf-call-iptables 0",
      "ipv4/conf/k6t-eth0/route_localnet 1",
      "ipv4/conf/k6t-eth0/forwarding 1",
      "ipv6/conf/eth0/accept_ra 2",
      "ipv6/conf/all/forwarding 1",
      "",
    ]);
  });

  test("of a module that is not loaded are not required", () => {
    const observed = parseSysctls(ALL.replace(/^bridge.*\n/, ""));
    expect(planSysctls(observed, WIRING).map(({ path }) => path)).not.toContain(
      "bridge/bridge-nf-call-iptables",
    );
  });

  test("are reset if they differ", () => {
    expect(planSysctlReset("eth0", parseSysctls(ALL))).toEqual([
      { path: "ipv4/conf/eth0/forwarding", value: "0" },
    ]);
    expect(planSysctlReset("eth0", new Map())).toEqual([]);
  });
});
