// SPDX-License-Identifier: Apache-2.0
// Names as KubeVirt v1.9 gives them. Source: KubeVirt pkg/network/namescheme/networknamescheme_test.go, pkg/network/link.
import { createHash } from "node:crypto";
import type { Network } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { isOwnPodInterfaceName, namesOf, podInterfaceNameOf } from "./names.ts";

const sha256Hex = (text: string): string => createHash("sha256").update(text).digest("hex");

function secondary(name: string, isDefault = false): Network {
  return {
    name,
    multus: { networkName: `default/${name}`, ...(isDefault ? { default: true } : {}) },
  };
}

describe("the NIC in the pod is called", () => {
  test.each([
    { network: secondary("network0", true), want: "eth0" },
    { network: secondary("network1"), want: "poda7662f44d65" },
    { network: secondary("network2"), want: "pod27f4a77f94e" },
    { network: secondary("red"), want: "podb1f51a511f1" },
    { network: secondary("green"), want: "podba4788b226a" },
    { network: secondary("overlay-network", true), want: "eth0" },
    { network: { name: "default", pod: {} }, want: "eth0" },
  ])("$want for network $network.name", ({ network, want }) => {
    expect(podInterfaceNameOf(network, sha256Hex)).toBe(want);
  });
});

describe("bridge and tap follow the NIC in the pod", () => {
  test.each([
    { podInterface: "eth0", bridgeName: "k6t-eth0", tapName: "tap0" },
    { podInterface: "pod16477688c0e", bridgeName: "k6t-16477688c0e", tapName: "tap16477688c0e" },
    // Ordinal names are KubeVirt's before v0.59. Patchbay makes none, and keeps those that a pod came with.
    { podInterface: "net1", bridgeName: "k6t-net1", tapName: "tap1" },
  ])("$podInterface", ({ podInterface, bridgeName, tapName }) => {
    expect(namesOf("nic", podInterface)).toMatchObject({ bridgeName, tapName });
  });

  test.each([
    { name: "pod16477688c0e", want: true },
    { name: "net1", want: false },
    { name: "eth0", want: false },
  ])("$name is Patchbay's to remove: $want", ({ name, want }) => {
    expect(isOwnPodInterfaceName(name)).toBe(want);
  });
});
