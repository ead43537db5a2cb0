// SPDX-License-Identifier: Apache-2.0
// The guest is hidden behind the addresses of the pod.
import { leaseBehindPod } from "../addresses/lease.ts";
import type { BindingModule, WiringFacts } from "./binding.ts";
import type { MasqueradeWiring } from "./pod-wiring.ts";

function wiringOf({
  podInterfaceName,
  bridgeName,
  tapName,
  mac,
  mtu,
}: WiringFacts): Omit<MasqueradeWiring, "owner" | "queues"> {
  return { kind: "masquerade", podInterfaceName, bridgeName, tapName, mac, mtu, ports: [] };
}

export const MASQUERADE: BindingModule = {
  kind: "masquerade",
  wiringOf,
  tapOf: ({ tapName }) => tapName,
  live: { plug: false, link: true, network: false },
  takesAddresses: false,
  leaseOf: (facts) => leaseBehindPod(wiringOf(facts)),
  addressesOf: "pod",
};
