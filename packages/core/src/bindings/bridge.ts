// SPDX-License-Identifier: Apache-2.0
// The guest has the pod NIC's place on the network.
import type { BindingModule } from "./binding.ts";

export const BRIDGE: BindingModule = {
  kind: "bridge",
  wiringOf: ({ podInterfaceName, bridgeName, tapName, mac, mtu }) => ({
    kind: "bridge",
    podInterfaceName,
    bridgeName,
    tapName,
    mac,
    mtu,
  }),
  tapOf: ({ tapName }) => tapName,
  live: { plug: true, link: true, network: true },
  addressesOf: "guest",
};
