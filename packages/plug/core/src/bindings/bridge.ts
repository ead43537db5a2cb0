// SPDX-License-Identifier: Apache-2.0
// The guest has the pod NIC's place on the network.
import { leaseOfRemembered, serversOf } from "../addresses/lease.ts";
import type { BindingModule, WiringFacts } from "./binding.ts";
import type { BridgeWiring, PodAnswers } from "./pod-wiring.ts";

/** Where the network gave the NIC addresses, the pod hands them on. */
function answersOf({ remembered }: WiringFacts): PodAnswers | undefined {
  const lease = leaseOfRemembered(remembered);
  if (lease === undefined) return undefined;
  const gatewayMac = lease.ipv6?.isRouter === true ? remembered?.gatewayMac : undefined;
  return { addresses: serversOf(lease), ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}

/** Bridge and tap around the pod NIC, and nobody in the pod who answers the guest. */
export function plainBridgeOf(facts: WiringFacts): Omit<BridgeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return { kind: "bridge", podInterfaceName, bridgeName, tapName, mac, mtu };
}

export const BRIDGE: BindingModule = {
  kind: "bridge",
  wiringOf: (facts) => {
    const answers = answersOf(facts);
    return { ...plainBridgeOf(facts), ...(answers === undefined ? {} : { answers }) };
  },
  tapOf: ({ tapName }) => tapName,
  live: { plug: true, link: true, network: true },
  takesAnyMac: true,
  takesAddresses: true,
  leaseOf: ({ remembered }) => leaseOfRemembered(remembered),
  addressesOf: "guest",
};
