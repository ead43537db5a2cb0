// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { AppError } from "@patchbay/base";
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import type { NodeNic } from "../../interfaces/node/node-nics.ts";
import { isHostDeviceFailure, isSameNodeNic, listMovedNics, movesNodeNic } from "./node-nics.ts";

type Plugins = NetworkConfigList["plugins"];

const PCI = "0000:00:03.0";
const VF = "0000:00:07.2";
const MAC = "02:00:00:00:00:01";
const PATH = "/sys/devices/pci0000:00/0000:00:03.0";
const DECLARED = { capabilities: { deviceID: true } };

function requestOf(plugins: Plugins, deviceID?: unknown) {
  return {
    config: { cniVersion: "1.0.0", name: "card", plugins },
    capabilityArgs: deviceID === undefined ? {} : { deviceID },
  };
}

const type = "host-device";

test.each<{ name: string; plugins: Plugins; deviceID?: unknown; want: unknown }>([
  { name: "no such plugin", plugins: [{ type: "bridge", device: "eth1" }], want: [] },
  {
    name: "a NIC by name",
    plugins: [{ type, device: "eth1" }],
    want: [{ by: "name", name: "eth1" }],
  },
  { name: "a NIC by MAC", plugins: [{ type, hwaddr: MAC }], want: [{ by: "mac", mac: MAC }] },
  {
    name: "a NIC by sysfs path",
    plugins: [{ type, kernelpath: PATH }],
    want: [{ by: "kernelPath", path: PATH }],
  },
  {
    name: "a NIC by PCI address",
    plugins: [{ type, pciBusID: PCI }],
    want: [{ by: "device", id: PCI }],
  },
  {
    name: "the runtime's device before the configuration's",
    plugins: [{ type, pciBusID: PCI, ...DECLARED }],
    deviceID: VF,
    want: [{ by: "device", id: VF }],
  },
  {
    name: "the configuration's device if the plugin does not declare the capability",
    plugins: [{ type, pciBusID: PCI, capabilities: { deviceID: false } }],
    deviceID: VF,
    want: [{ by: "device", id: PCI }],
  },
  {
    name: "the configuration's device if the runtime sets none",
    plugins: [{ type, pciBusID: PCI, ...DECLARED }],
    deviceID: "",
    want: [{ by: "device", id: PCI }],
  },
  { name: "a value that is not text", plugins: [{ type, ...DECLARED }], deviceID: 7, want: [] },
  {
    name: "all fields: the name counts",
    plugins: [{ type, device: "eth1", hwaddr: MAC, kernelpath: PATH, pciBusID: PCI }],
    want: [{ by: "name", name: "eth1" }],
  },
  {
    name: "all fields except the name: the MAC counts",
    plugins: [{ type, device: "", hwaddr: MAC, kernelpath: PATH, pciBusID: PCI }],
    want: [{ by: "mac", mac: MAC }],
  },
  {
    name: "path and PCI address: the path counts",
    plugins: [{ type, kernelpath: PATH, pciBusID: PCI }],
    want: [{ by: "kernelPath", path: PATH }],
  },
  {
    name: "a chain of two plugins",
    plugins: [{ type: "tuning" }, { type, device: "eth1" }, { type, device: "eth2" }],
    want: [
      { by: "name", name: "eth1" },
      { by: "name", name: "eth2" },
    ],
  },
])("lists the node's NICs that plugins move: $name", ({ plugins, deviceID, want }) => {
  const request = requestOf(plugins, deviceID);
  expect(listMovedNics(request)).toEqual(want);
  expect(movesNodeNic(request.config)).toBe(plugins.some((plugin) => plugin.type === type));
});

const NIC: NodeNic = {
  name: "eth1",
  index: 3,
  kind: "",
  mac: MAC,
  mtu: 1500,
  up: true,
  alias: "",
  addresses: [],
  routes: [],
};
const BURNT_IN: NodeNic = { ...NIC, permanentMac: MAC };

test.each([
  { name: "all values are equal", one: NIC, other: NIC, want: true },
  { name: "its index has changed", one: NIC, other: { ...NIC, index: 9 }, want: true },
  { name: "its name has changed", one: NIC, other: { ...NIC, name: "eth2" }, want: false },
  { name: "its kind has changed", one: NIC, other: { ...NIC, kind: "vlan" }, want: false },
  {
    name: "the same permanent MAC under another name",
    one: BURNT_IN,
    other: { ...BURNT_IN, name: "net1" },
    want: true,
  },
  {
    name: "a different permanent MAC",
    one: BURNT_IN,
    other: { ...BURNT_IN, permanentMac: "02:00:00:00:00:02" },
    want: false,
  },
  { name: "only the first has a permanent MAC", one: BURNT_IN, other: NIC, want: false },
  { name: "only the second has a permanent MAC", one: NIC, other: BURNT_IN, want: false },
])("decides whether it is the same NIC: $name", ({ one, other, want }) => {
  expect(isSameNodeNic(one, other)).toBe(want);
});

test.each([
  { name: "host-device", error: new AppError("CNI_PLUGIN_FAILED", { plugin: type }), want: true },
  {
    name: "another plugin",
    error: new AppError("CNI_PLUGIN_FAILED", { plugin: "tuning" }),
    want: false,
  },
  {
    name: "a missing plugin",
    error: new AppError("CNI_PLUGIN_MISSING", { plugin: type }),
    want: false,
  },
  { name: "a different error", error: new Error(type), want: false },
])("detects a failure of plugin host-device: $name", ({ error, want }) => {
  expect(isHostDeviceFailure(error)).toBe(want);
});
