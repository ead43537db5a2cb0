// SPDX-License-Identifier: Apache-2.0
// The guest is hidden behind the addresses of the pod.
import type { BindingModule } from "./binding.ts";

export const MASQUERADE: BindingModule = {
  kind: "masquerade",
  wiringOf: ({ podInterfaceName, bridgeName, tapName, mac, mtu }) => ({
    kind: "masquerade",
    podInterfaceName,
    bridgeName,
    tapName,
    mac,
    mtu,
    ports: [],
  }),
  tapOf: ({ tapName }) => tapName,
  live: { plug: false, link: true, network: false },
  addressesOf: "pod",
};
