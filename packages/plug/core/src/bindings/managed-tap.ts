// SPDX-License-Identifier: Apache-2.0
// A registered plugin prepares the network, and the guest is bridged to the pod NIC as with bridge, but for addresses:
// they are the plugin's matter. Source: KubeVirt DomainAttachmentType ManagedTap.
import type { BindingModule } from "./binding.ts";
import { BRIDGE, plainBridgeOf } from "./bridge.ts";

export const MANAGED_TAP: BindingModule = {
  ...BRIDGE,
  kind: "managedTap",
  // The plugin made what it makes for one network, by the name of that one's NIC.
  live: { ...BRIDGE.live, network: false },
  wiringOf: plainBridgeOf,
  leaseOf: () => undefined,
};
