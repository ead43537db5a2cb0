// SPDX-License-Identifier: Apache-2.0
import type { KubeVirt } from "@patchbay/api";
import { expect, test } from "vitest";
import { planNodeOffers } from "./node-devices.ts";

const shared = { kind: "device", permissions: "rw", count: 1000 };
const kvm = { resource: "devices.kubevirt.io/kvm", path: "/dev/kvm", ...shared };
const tun = { resource: "devices.kubevirt.io/tun", path: "/dev/net/tun", ...shared };
const vhostNet = { resource: "devices.kubevirt.io/vhost-net", path: "/dev/vhost-net", ...shared };
const sockets = { kind: "sockets", resource: "vhost-user.patchbay.io/sockets", count: 1000 };
const all = { kind: "all-sockets", resource: "vhost-user.patchbay.io/dataplane", count: 1 };

function configured(developerConfiguration: object): KubeVirt {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt" },
    spec: { configuration: { developerConfiguration } },
  };
}

test.each([
  { name: "by default", kubevirt: undefined, want: [kvm, tun, vhostNet, sockets] },
  {
    name: "under emulation",
    kubevirt: configured({ useEmulation: true }),
    want: [tun, vhostNet, sockets],
  },
  {
    name: "with a dataplane pod",
    kubevirt: configured({ featureGates: ["VhostUserDataplane"] }),
    want: [kvm, tun, vhostNet, sockets, all],
  },
])("plans the devices that a node offers $name", ({ kubevirt, want }) => {
  expect(planNodeOffers(kubevirt)).toEqual(want);
});
