// SPDX-License-Identifier: Apache-2.0
// The guest has the pod NIC's place on the network.
import { leaseOfRemembered, serversOf } from "../addresses/lease.ts";
import type { BindingModule, WiringFacts } from "./binding.ts";
import type { PodAnswers } from "./pod-wiring.ts";

/** Where the network gave the NIC addresses, the pod hands them on. */
function answersOf({ remembered }: WiringFacts): PodAnswers | undefined {
  const lease = leaseOfRemembered(remembered);
  if (lease === undefined) return undefined;
  const gatewayMac = lease.ipv6?.isRouter === true ? remembered?.gatewayMac : undefined;
  return { addresses: serversOf(lease), ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}

export const BRIDGE: BindingModule = {
  kind: "bridge",
  wiringOf: (facts) => {
    const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
    const answers = answersOf(facts);
    return {
      ...{ kind: "bridge", podInterfaceName, bridgeName, tapName, mac, mtu },
      ...(answers === undefined ? {} : { answers }),
    };
  },
  tapOf: ({ tapName }) => tapName,
  live: { plug: true, link: true, network: true },
  takesAddresses: true,
  leaseOf: ({ remembered }) => leaseOfRemembered(remembered),
  addressesOf: "guest",
};
