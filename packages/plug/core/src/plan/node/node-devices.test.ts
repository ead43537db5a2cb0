// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { planNodeDevices } from "./node-devices.ts";

const kvm = { resource: "devices.kubevirt.io/kvm", path: "/dev/kvm" };
const tun = { resource: "devices.kubevirt.io/tun", path: "/dev/net/tun" };
const vhostNet = { resource: "devices.kubevirt.io/vhost-net", path: "/dev/vhost-net" };

test.each([
  { name: "with hardware", useEmulation: false, want: [kvm, tun, vhostNet] },
  { name: "under emulation", useEmulation: true, want: [tun, vhostNet] },
])("the devices of a node $name", ({ useEmulation, want }) => {
  const shared = { permissions: "rw", count: 1000 };
  expect(planNodeDevices(useEmulation)).toEqual(want.map((device) => ({ ...device, ...shared })));
});
