// SPDX-License-Identifier: Apache-2.0
// What the DHCP server of each NIC serves, derived only from the spec and from what the agent remembers.
import { isDefaultNetwork, type DhcpOptions, type VirtualMachineInstance } from "@patchbay/api";
import type { IfaceFacts } from "../iface/facts.ts";
import { macOf } from "../iface/mac.ts";
import { namesOf } from "../iface/names.ts";
import { leaseOf } from "../iface/links/wiring.ts";
import { hostnameOf } from "../spec/hostname.ts";
import { waysOutOf, withoutWaysOut, type GuestLease } from "./lease.ts";
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
  /** What the running servers serve. */
  readonly served?: readonly ServedNic[];
  /** The pod's resolver; absent: it has none. */
  readonly dns?: DnsSettings;
}

const NO_DNS: DnsSettings = { nameservers: [], search: [] };

/** Whether the server can be where it listens; a wiring that is mended has it all the while. */
function isServable(
  { wired, bridge }: IfaceFacts["links"],
  bridgeName: string,
  { served = [] }: ServingFacts,
): boolean {
  return wired || (bridge && served.some((nic) => nic.bridgeName === bridgeName));
}

function isMain({ network }: IfaceFacts): boolean {
  return network !== undefined && isDefaultNetwork(network);
}

/**
 * What leads out of the guest's networks is told of one NIC, since a guest takes equal ones for equally good: that on the
 * pod's network, and where the guest has none, that on the network which has the pod's default route. A network's own
 * name servers are its own matter.
 */
function outwardOf(
  iface: IfaceFacts,
  lease: GuestLease,
  facts: ServingFacts,
): Pick<ServedNic, "lease" | "dns"> {
  const podDns = facts.dns ?? NO_DNS;
  if (isMain(iface)) return { lease, dns: podDns };
  const main = facts.ifaces.find(isMain);
  const isOut = main === undefined && waysOutOf(lease).length > 0;
  return {
    lease: withoutWaysOut(lease, main === undefined ? [] : waysOutOf(leaseOf(main) ?? {})),
    dns: iface.attachment?.dns ?? (isOut ? podDns : NO_DNS),
  };
}

function servedNicOf(iface: IfaceFacts, facts: ServingFacts): readonly ServedNic[] {
  const lease = leaseOf(iface);
  const { bridgeName } = namesOf(iface.name, iface.podInterfaceName);
  if (lease === undefined || !isServable(iface.links, bridgeName, facts)) return [];
  return [
    {
      iface: iface.name,
      bridgeName,
      mac: (iface.device?.mac ?? macOf(iface)).toLowerCase(),
      mtu: iface.links.mtu,
      hostname: hostnameOf(facts.vmi),
      ...outwardOf(iface, lease, facts),
      options: iface.iface?.dhcpOptions ?? {},
    },
  ];
}

/** Every NIC that the pod gives addresses, in the order of the ifaces. */
export function servedNics(facts: ServingFacts): readonly ServedNic[] {
  return facts.ifaces.flatMap((iface) => servedNicOf(iface, facts));
}
