// SPDX-License-Identifier: Apache-2.0
// A registered plugin makes the tap; the device opens it. Source: KubeVirt DomainAttachmentType Tap.
import type { BindingModule } from "./binding.ts";

export const TAP: BindingModule = {
  kind: "tap",
  wiringOf: ({ podInterfaceName, tapName, mac, mtu }) => ({
    kind: "tap",
    podInterfaceName,
    tapName,
    mac,
    mtu,
  }),
  // Source: KubeVirt network/setup/podinterface.go: without a tap of that name the pod NIC is one.
  tapOf: ({ podInterfaceName, tapName }, links) =>
    links.has(tapName) ? tapName : podInterfaceName,
  // Another network would mean another tap, and so another device.
  live: { plug: true, link: true, network: false },
  // A macvtap lets through what is for its own MAC only.
  takesAnyMac: false,
  takesAddresses: false,
  leaseOf: () => undefined,
  addressesOf: "guest",
};
