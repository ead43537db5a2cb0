// SPDX-License-Identifier: Apache-2.0
// The guest is hidden behind the addresses of the pod.
import type { Iface } from "@patchbay/api";
import { leaseBehindPod } from "../addresses/lease.ts";
import type { BindingModule, WiringFacts } from "./binding.ts";
import { natSubnetsOf } from "./nat-subnets.ts";
import type { ForwardedPorts, MasqueradeWiring } from "./pod-wiring.ts";

function protocolOf(text: string | undefined): ForwardedPorts["protocol"] {
  return text?.toLowerCase() === "udp" ? "udp" : "tcp";
}

/** Which ports of the pod are the guest's; empty: all. */
function portsOf(iface: Iface | undefined): readonly ForwardedPorts[] {
  const single = (iface?.ports ?? []).map(({ port, protocol }) => ({
    protocol: protocolOf(protocol),
    first: port,
    last: port,
  }));
  const ranges = (iface?.portRanges ?? []).map(({ protocol, start, end }) => ({
    protocol: protocolOf(protocol),
    first: start,
    last: end,
  }));
  return [...single, ...ranges];
}

function wiringOf(facts: WiringFacts): Omit<MasqueradeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return {
    kind: "masquerade",
    podInterfaceName,
    bridgeName,
    tapName,
    mac,
    mtu,
    ...natSubnetsOf(facts.network, facts.podAddresses),
    ports: portsOf(facts.iface),
  };
}

export const MASQUERADE: BindingModule = {
  kind: "masquerade",
  wiringOf,
  tapOf: ({ tapName }) => tapName,
  live: { plug: false, link: true, network: false },
  takesAnyMac: true,
  takesAddresses: false,
  leaseOf: (facts) => leaseBehindPod(wiringOf(facts)),
  addressesOf: "pod",
};
