// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Iface, Network } from "../kinds/network.ts";
import { withDefaultBinding } from "./defaults.ts";

const NETWORKS: readonly Network[] = [
  { name: "default", pod: {} },
  { name: "blue", multus: { networkName: "blue" } },
];

test.each<{ name: string; iface: Iface; want: Iface }>([
  {
    name: "an iface on a secondary network without a binding gets bridge",
    iface: { name: "blue", model: "virtio" },
    want: { name: "blue", model: "virtio", bridge: {} },
  },
  {
    name: "an existing binding is retained",
    iface: { name: "blue", sriov: {} },
    want: { name: "blue", sriov: {} },
  },
  {
    name: "the pod network's iface is unchanged",
    iface: { name: "default" },
    want: { name: "default" },
  },
  { name: "an iface without a network is unchanged", iface: { name: "x" }, want: { name: "x" } },
])("$name", ({ iface, want }) => {
  expect(withDefaultBinding(iface, NETWORKS)).toEqual(want);
});
