// SPDX-License-Identifier: Apache-2.0
// What the DHCP server of a VM is to give its NICs: from the spec and from what the agent remembers, and nothing else.
import type { DhcpOptions, VirtualMachineInstance } from "@patchbay/api";
import type { IfaceFacts } from "../iface/facts.ts";
import { macOf } from "../iface/mac.ts";
import { namesOf } from "../iface/names.ts";
import { leaseOf } from "../iface/wiring.ts";
import { hostnameOf } from "../spec/hostname.ts";
import type { GuestLease } from "./lease.ts";
import type { DnsSettings } from "./resolver.ts";

/** One NIC of a guest, as the server knows it. */
export interface ServedNic {
  /** Name of the iface. */
  readonly iface: string;
  /** Where the server listens. */
  readonly bridgeName: string;
  /** The only client there. */
  readonly mac: string;
  /** Bytes. */
  readonly mtu: number;
  readonly hostname: string;
  readonly lease: GuestLease;
  readonly dns: DnsSettings;
  readonly options: DhcpOptions;
}

/** What the server depends on. */
export interface ServingFacts {
  readonly vmi: VirtualMachineInstance;
  readonly ifaces: readonly IfaceFacts[];
  /** What a server that runs gives; absent: none runs. */
  readonly served?: readonly ServedNic[];
  /** The pod's resolver; absent: it has none. */
  readonly dns?: DnsSettings;
}

const NO_DNS: DnsSettings = { nameservers: [], search: [] };

function servedNicOf(
  iface: IfaceFacts,
  { vmi, dns = NO_DNS, served = [] }: ServingFacts,
): readonly ServedNic[] {
  const lease = leaseOf(iface);
  const { bridgeName } = namesOf(iface.name, iface.podInterfaceName);
  const { wired, bridge, mtu } = iface.links;
  // A wiring that is mended has its server all the while.
  const isServed = served.some((nic) => nic.bridgeName === bridgeName);
  if (lease === undefined || !(wired || (bridge && isServed))) return [];
  return [
    {
      iface: iface.name,
      bridgeName,
      mac: (iface.device?.mac ?? macOf(iface)).toLowerCase(),
      mtu,
      hostname: hostnameOf(vmi),
      lease,
      dns,
      options: iface.iface?.dhcpOptions ?? {},
    },
  ];
}

/** Every NIC that the pod gives addresses, in the order of the ifaces. */
export function servedNics(facts: ServingFacts): readonly ServedNic[] {
  return facts.ifaces.flatMap((iface) => servedNicOf(iface, facts));
}
