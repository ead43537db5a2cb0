// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { deviceTapsOf } from "./device-taps.ts";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";

const device = { alias: "ua-one", mac: "02:00:00:00:00:01", linkUp: true, queues: 1 };
const WITHOUT_DEVICE: IfaceFacts = {
  name: "one",
  podInterfaceName: "pod1",
  binding: { kind: "bridge" },
  links: { ...NO_LINKS, tap: true, tapOpen: true, tapIndex: 4 },
};
const IFACE: IfaceFacts = { ...WITHOUT_DEVICE, device };
const CLOSED = { ...IFACE, links: { ...IFACE.links, tapOpen: false, tapIndex: 9 } };
const NO_TAP = { ...IFACE, links: NO_LINKS };

test.each([
  { name: "that it has open", iface: IFACE, before: 3, want: 4 },
  { name: "with which it was seen, while another has its name", iface: CLOSED, before: 4, want: 4 },
  { name: "with which it was seen, while it is gone", iface: NO_TAP, before: 4, want: 4 },
  { name: "of none, while none was open", iface: CLOSED, before: undefined, want: undefined },
  { name: "of none, when the device is gone", iface: WITHOUT_DEVICE, before: 4, want: undefined },
])("a device is remembered with the tap $name", ({ iface, before, want }) => {
  const known = new Map(before === undefined ? [] : [["one", before]]);
  expect(deviceTapsOf([iface], known).get("one")).toBe(want);
});
