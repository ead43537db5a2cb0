// SPDX-License-Identifier: Apache-2.0
// What the DHCP server of each NIC serves, derived only from the spec and from what the agent remembers.
import {
  isDefaultNetwork,
  parseIp,
  type DhcpOptions,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { IfaceFacts } from "../iface/facts.ts";
import { macOf } from "../iface/mac.ts";
import { namesOf } from "../iface/names.ts";
import { leaseOf } from "../iface/links/wiring.ts";
import { hostnameOf } from "../spec/hostname.ts";
import { IPV6_SUBNET, waysOutOf, withoutWaysOut, type GuestLease } from "./lease.ts";
import { normalizeAddress } from "./normalize.ts";
import { withFittingOptions } from "./option-limits.ts";
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
  /** What the server cannot give the guest, one message each; unset when it gives everything. */
  readonly leftOut?: readonly string[];
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
 * The domain in which DNS knows the guest comes first, so that the guest's full name is one that DNS resolves. It is the
 * subdomain before the pod's service domain; a resolver without that domain stays as it is.
 * Source: KubeVirt pkg/network/dns DomainNameWithSubdomain
 */
function withSubdomain(dns: DnsSettings, { metadata, spec }: VirtualMachineInstance): DnsSettings {
  const { subdomain = "" } = spec;
  const prefix = `${metadata.namespace ?? ""}.svc.`;
  const domain = dns.search.find((each) => each.startsWith(prefix));
  if (subdomain === "" || domain === undefined) return dns;
  const own = `${subdomain}.${domain}`;
  return { ...dns, search: [own, ...dns.search.filter((each) => each !== own)] };
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
  const podDns = withSubdomain(facts.dns ?? NO_DNS, facts.vmi);
  if (isMain(iface)) return { lease, dns: podDns };
  const main = facts.ifaces.find(isMain);
  const isOut = main === undefined && waysOutOf(lease).length > 0;
  return {
    lease: withoutWaysOut(lease, main === undefined ? [] : waysOutOf(leaseOf(main) ?? {})),
    dns: iface.attachment?.dns ?? (isOut ? podDns : NO_DNS),
  };
}

/** Addresses of the NIC that the guest does not get, or cannot fully use. */
function unservedOf({ remembered }: IfaceFacts, lease: GuestLease): readonly string[] {
  const { ipv4, ipv6 } = lease;
  const others = (remembered?.addresses ?? []).filter(
    (address) => parseIp(address)?.version === 4 && address !== ipv4?.address,
  );
  const wide = (ipv6?.addresses ?? []).filter(
    ({ address, isOnLink }) => !isOnLink && (parseIp(address)?.length ?? 0) < IPV6_SUBNET,
  );
  return [
    ...others.map(
      (address) =>
        `IPv4 address ${address} is not served, because DHCP gives one address to a NIC; set it in the guest, or define one IPv4 range for the network`,
    ),
    ...(ipv6?.isRouter === true ? [] : wide).map(
      ({ address }) =>
        `the guest gets ${address} without a route to its subnet, because no router answers there and router advertisements have no prefix shorter than /64; set the route in the guest, or use a /64`,
    ),
  ];
}

/** dnsmasq does not accept addresses with leading zeros. */
function optionsOf({ iface }: IfaceFacts): DhcpOptions {
  const { dhcpOptions = {} } = iface ?? {};
  const { ntpServers } = dhcpOptions;
  if (ntpServers === undefined) return dhcpOptions;
  return { ...dhcpOptions, ntpServers: ntpServers.map(normalizeAddress) };
}

function servedNicOf(iface: IfaceFacts, facts: ServingFacts): readonly ServedNic[] {
  const lease = leaseOf(iface);
  const { bridgeName } = namesOf(iface.name, iface.podInterfaceName);
  if (lease === undefined || !isServable(iface.links, bridgeName, facts)) return [];
  const leftOut = unservedOf(iface, lease);
  return [
    withFittingOptions({
      iface: iface.name,
      bridgeName,
      mac: (iface.device?.mac ?? macOf(iface)).toLowerCase(),
      mtu: iface.links.mtu,
      hostname: hostnameOf(facts.vmi),
      ...outwardOf(iface, lease, facts),
      options: optionsOf(iface),
      ...(leftOut.length === 0 ? {} : { leftOut }),
    }),
  ];
}

/** Every NIC that the pod gives addresses, in the order of the ifaces. */
export function servedNics(facts: ServingFacts): readonly ServedNic[] {
  return facts.ifaces.flatMap((iface) => servedNicOf(iface, facts));
}
