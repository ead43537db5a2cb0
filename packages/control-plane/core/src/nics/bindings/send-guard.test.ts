// SPDX-License-Identifier: Apache-2.0
import type { ClusterSecurity, Iface, Network } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { planSendGuard, type SendGuardFacts } from "./send-guard.ts";

const MAC = "02:00:00:00:5e:01";
const OFF: ClusterSecurity = { mode: "Off", enforced: false };
const POD: Network = { name: "one", pod: {} };
const BLUE: Network = { name: "one", multus: { networkName: "blue" } };
const OWN = { macs: [MAC], allowsServers: false };
const ADDRESSES = ["10.9.0.1", "fd09::1", "fe80::ff:fe00:5e01"];

function guardOf(
  portSecurity: Iface["portSecurity"],
  more: Partial<SendGuardFacts> = {},
): ReturnType<typeof planSendGuard> {
  const iface: Iface = { name: "one", bridge: {}, ...(portSecurity && { portSecurity }) };
  const input = { mac: MAC, addresses: ["10.9.0.1", "fd09::1"] };
  return planSendGuard({ iface, network: BLUE, cluster: OFF, ...input, ...more });
}

describe("the send guard of a guest", () => {
  test("is off unless the cluster or the interface enables it, as in KubeVirt", () => {
    expect(guardOf(undefined)).toBeUndefined();
    expect(guardOf({ allowServers: true })).toBeUndefined();
  });

  test("always allows only its own MAC and addresses on the pod network", () => {
    const requested = {
      mode: "Off",
      allowedMACs: ["02:00:00:00:5e:02"],
      allowedAddresses: ["10.0.0.0/8"],
      allowServers: true,
    };
    const want = { ...OWN, addresses: ADDRESSES };
    expect(guardOf(requested, { network: POD })).toEqual(want);
    expect(guardOf(undefined, { network: POD, cluster: OFF })).toEqual(want);
    const multusDefault: Network = { name: "one", multus: { networkName: "blue", default: true } };
    expect(guardOf(undefined, { network: multusDefault })).toEqual(want);
  });

  test.each<{
    name: string;
    said: Iface["portSecurity"];
    cluster: ClusterSecurity;
    want: ReturnType<typeof guardOf>;
  }>([
    {
      name: "the cluster's mode",
      said: undefined,
      cluster: { mode: "MAC", enforced: false },
      want: OWN,
    },
    {
      name: "the iface's mode before the cluster's",
      said: { mode: "Off" },
      cluster: { ...OFF, mode: "MAC" },
      want: undefined,
    },
    { name: "no unknown mode", said: { mode: "mac" }, cluster: OFF, want: undefined },
    {
      name: "the assigned addresses",
      said: { mode: "Addresses" },
      cluster: OFF,
      want: { ...OWN, addresses: ADDRESSES },
    },
    {
      name: "additional MACs",
      said: { mode: "MAC", allowedMACs: ["00-00-5E-00-01-0A", MAC] },
      cluster: OFF,
      want: { ...OWN, macs: [MAC, "00:00:5e:00:01:0a"] },
    },
    {
      name: "additional addresses",
      said: { mode: "Addresses", allowedAddresses: ["10.10.0.0/16", "fe80::/10", "::/0", "x"] },
      cluster: OFF,
      want: {
        ...OWN,
        addresses: ["10.9.0.1", "fd09::1", "10.10.0.0/16", "fe80::/10", "fe80::ff:fe00:5e01"],
      },
    },
    {
      name: "the permission for servers",
      said: { mode: "MAC", allowServers: true },
      cluster: OFF,
      want: { ...OWN, allowsServers: true },
    },
    {
      name: "the enforced mode if the iface requests less",
      said: { mode: "Off", allowedMACs: [MAC], allowServers: true },
      cluster: { mode: "MAC", enforced: true },
      want: OWN,
    },
    {
      name: "the iface's mode if it is stricter than the enforced mode",
      said: { mode: "Addresses", allowedAddresses: ["10.10.0.0/16"] },
      cluster: { mode: "MAC", enforced: true },
      want: { ...OWN, addresses: ADDRESSES },
    },
  ])("follows $name", ({ said: message, cluster, want }) => {
    expect(guardOf(message, { cluster })).toEqual(want);
  });

  test("allows any address if the network assigned none", () => {
    expect(guardOf({ mode: "Addresses" }, { addresses: [] })).toEqual(OWN);
  });
});
