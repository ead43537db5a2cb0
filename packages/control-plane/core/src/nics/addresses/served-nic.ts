// SPDX-License-Identifier: Apache-2.0
// Settings that each NIC's DHCP server serves, from the spec and the recorded addresses.
import { isDefaultNetwork, type DhcpOptions, type VirtualMachineInstance } from "@patchbay/api";
import { parseIp } from "@patchbay/api/values";
import type { IfaceFacts } from "../facts.ts";
import { findMac } from "../mac.ts";
import { namesOf } from "../names.ts";
import { buildLease } from "../node-plan.ts";
import { buildHostname } from "../../vm/spec/guest-names.ts";
import {
  IPV6_SUBNET_LENGTH,
  defaultRouteFamilies,
  withoutDefaultRoutes,
  type GuestLease,
  type NicRoute,
} from "./lease.ts";
import { normalizeAddress, type DnsSettings } from "./resolver.ts";

export interface ServedNic {
  readonly iface: string;
  readonly bridgeName: string;
  readonly mac: string;
  readonly mtu: number;
  readonly hostname: string;
  readonly lease: GuestLease;
  readonly dns: DnsSettings;
  readonly options: DhcpOptions;
  /** Messages about settings that are not served. Unset if all are served. */
  readonly omissions?: readonly string[];
}

interface ServingFacts {
  readonly vmi: VirtualMachineInstance;
  readonly ifaces: readonly IfaceFacts[];
  readonly served?: readonly ServedNic[];
  readonly dns?: DnsSettings;
}

const NO_DNS: DnsSettings = { nameservers: [], search: [] };

/** Whether a server can listen on the bridge. A running server continues while its wiring is repaired. */
function isServable(
  { wired, bridge }: IfaceFacts["links"],
  bridgeName: string,
  { served = [] }: ServingFacts,
): boolean {
  return wired || (bridge && served.some((nic) => nic.bridgeName === bridgeName));
}

function isOnPodNetwork({ network }: IfaceFacts): boolean {
  return network !== undefined && isDefaultNetwork(network);
}

/**
 * Puts the guest's own DNS domain (SUBDOMAIN.NAMESPACE.svc...) first in the search list, so that its full name resolves.
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
 * Removes default routes that another NIC serves, because guests treat several default routes as equivalent. The pod's DNS
 * goes to the NIC on the pod network, or else to NICs with a default route. A network's own name servers take precedence.
 */
function chooseLeaseAndDns(
  iface: IfaceFacts,
  lease: GuestLease,
  facts: ServingFacts,
): Pick<ServedNic, "lease" | "dns"> {
  const podDns = withSubdomain(facts.dns ?? NO_DNS, facts.vmi);
  if (isOnPodNetwork(iface)) return { lease, dns: podDns };
  const podNic = facts.ifaces.find(isOnPodNetwork);
  const hasPodDefaultRoute = podNic === undefined && defaultRouteFamilies(lease).length > 0;
  return {
    lease: withoutDefaultRoutes(
      lease,
      podNic === undefined ? [] : defaultRouteFamilies(buildLease(podNic) ?? {}),
    ),
    dns: iface.attachment?.dns ?? (hasPodDefaultRoute ? podDns : NO_DNS),
  };
}

function describeUnserved({ remembered }: IfaceFacts, lease: GuestLease): readonly string[] {
  const { ipv4, ipv6 } = lease;
  const others = (remembered?.addresses ?? []).filter(
    (address) => parseIp(address)?.version === 4 && address !== ipv4?.address,
  );
  const shortPrefixes = (ipv6?.addresses ?? []).filter(
    ({ address, isOnLink }) => !isOnLink && (parseIp(address)?.length ?? 0) < IPV6_SUBNET_LENGTH,
  );
  return [
    ...others.map(
      (address) =>
        `IPv4 address ${address} is not served, because DHCP gives one address to a NIC; set it in the guest, or define one IPv4 range for the network`,
    ),
    ...(ipv6?.isRouter === true ? [] : shortPrefixes).map(
      ({ address }) =>
        `the guest gets ${address} without a route to its subnet, because no router answers there and router advertisements have no prefix shorter than /64; set the route in the guest, or use a /64`,
    ),
  ];
}

/** Removes leading zeros from NTP servers' addresses, which dnsmasq rejects. */
function normalizeOptions({ iface }: IfaceFacts): DhcpOptions {
  const { dhcpOptions = {} } = iface ?? {};
  const { ntpServers } = dhcpOptions;
  if (ntpServers === undefined) return dhcpOptions;
  return { ...dhcpOptions, ntpServers: ntpServers.map(normalizeAddress) };
}

function toServedNics(iface: IfaceFacts, facts: ServingFacts): readonly ServedNic[] {
  const lease = buildLease(iface);
  const { bridgeName } = namesOf(iface.name, iface.podInterfaceName);
  if (lease === undefined || !isServable(iface.links, bridgeName, facts)) return [];
  const omissions = describeUnserved(iface, lease);
  return [
    limitOptions({
      iface: iface.name,
      bridgeName,
      mac: (iface.device?.mac ?? findMac(iface)).toLowerCase(),
      mtu: iface.links.mtu,
      hostname: buildHostname(facts.vmi),
      ...chooseLeaseAndDns(iface, lease, facts),
      options: normalizeOptions(iface),
      ...(omissions.length === 0 ? {} : { omissions }),
    }),
  ];
}

export function servedNics(facts: ServingFacts): readonly ServedNic[] {
  return facts.ifaces.flatMap((iface) => toServedNics(iface, facts));
}

/**
 * Maximum bytes of one option. Longer options are cut, because dnsmasq refuses to start with them and does not split them
 * as RFC 3396 allows. Source: RFC 2132 section 2
 */
const OPTION_MAX = 255;
/** Maximum bytes of search domains in a router advertisement: 255 units of 8 bytes, less a header of 8. Source: RFC 8106 section 5.2 */
const ADVERTISED_SEARCH_MAX = 2032;
const IPV4_BYTES = 4;
const NAMED_ITEMS_MAX = 3;

interface WithOptions {
  readonly lease: GuestLease;
  readonly dns: DnsSettings;
  readonly options: DhcpOptions;
  readonly omissions?: readonly string[];
}

interface Fit<T> {
  readonly fitting: readonly T[];
  readonly omissions: readonly T[];
}

/** Splits the list before the first item that would exceed `max` bytes. `sizeOf` returns the bytes of a list. */
function fitIntoOption<T>(
  items: readonly T[],
  max: number,
  sizeOf: (prefix: readonly T[]) => number,
): Fit<T> {
  const beyond = items.findIndex((_item, at) => sizeOf(items.slice(0, at + 1)) > max);
  const count = beyond === -1 ? items.length : beyond;
  return { fitting: items.slice(0, count), omissions: items.slice(count) };
}

/** Returns the bytes of a route: length, significant bytes of the destination, gateway. Source: RFC 3442 */
function routeSize({ destination }: NicRoute): number {
  return 1 + Math.ceil((parseIp(destination)?.length ?? 0) / 8) + IPV4_BYTES;
}

/** Returns the rank of a route; lower ranks take precedence. On-link routes are first, because gateways need them. */
function rankRoute({ destination, gateway }: NicRoute): number {
  if (gateway === undefined) return 0;
  return destination.endsWith("/0") ? 1 : 2;
}

/** Chooses the routes that fit: on-link routes, then the default route, then all others. Their order is unchanged. */
export function fitRoutes(routes: readonly NicRoute[]): Fit<NicRoute> {
  const ranked = routes.toSorted((left, right) => rankRoute(left) - rankRoute(right));
  const { fitting } = fitIntoOption(ranked, OPTION_MAX, (prefix) =>
    prefix.reduce((sum, route) => sum + routeSize(route), 0),
  );
  return {
    fitting: routes.filter((route) => fitting.includes(route)),
    omissions: routes.filter((route) => !fitting.includes(route)),
  };
}

function listSuffixes(domain: string): readonly string[] {
  const labels = domain.replace(/\.$/, "").split(".");
  return labels.map((_label, at) => labels.slice(at).join("."));
}

/**
 * Returns the bytes of the search domains. Repeated suffixes become pointers of two bytes. Source: RFC 3397 section 2;
 * dnsmasq 2.90 option.c, parse_dhcp_opt
 */
function searchSize(domains: readonly string[]): number {
  const written = new Set<string>();
  let hasPointer = false;
  let size = 0;
  for (const domain of domains) {
    const suffixes = listSuffixes(domain);
    const repeated = suffixes.findIndex((suffix) => written.has(suffix));
    const own = suffixes.slice(0, repeated === -1 ? suffixes.length : repeated);
    size += own.reduce((sum, suffix) => sum + 1 + (suffix.split(".")[0] ?? "").length, 0);
    size += repeated === -1 ? 1 : 2;
    // dnsmasq does not find suffixes that it wrote after the first pointer.
    hasPointer ||= repeated !== -1;
    if (!hasPointer) for (const suffix of own) written.add(suffix);
  }
  return size;
}

function plainSize(domains: readonly string[]): number {
  return domains.reduce((sum, domain) => sum + domain.replace(/\.$/, "").length + 2, 0);
}

export function fitSearch(search: readonly string[], hasIpv4: boolean): Fit<string> {
  return hasIpv4
    ? fitIntoOption(search, OPTION_MAX, searchSize)
    : fitIntoOption(search, ADVERTISED_SEARCH_MAX, plainSize);
}

function omissionMessage(
  what: string,
  all: readonly unknown[],
  omissions: readonly string[],
): readonly string[] {
  if (omissions.length === 0) return [];
  const named = omissions.slice(0, NAMED_ITEMS_MAX).join(", ");
  const more = omissions.length > NAMED_ITEMS_MAX ? ", ..." : "";
  const count = `${String(omissions.length)} of ${String(all.length)}`;
  return [
    `${count} ${what} do not fit into a DHCP option of ${String(OPTION_MAX)} bytes and are left out: ${named}${more}`,
  ];
}

/** Cuts the options to what the server accepts and reports what is left out. */
export function limitOptions<Nic extends WithOptions>(nic: Nic): Nic {
  const { lease, dns, options } = nic;
  const { ntpServers = [] } = options;
  const routes = fitRoutes(lease.ipv4?.routes ?? []);
  const search = fitSearch(dns.search, lease.ipv4 !== undefined);
  const ntp = fitIntoOption(ntpServers, OPTION_MAX, (prefix) => prefix.length * IPV4_BYTES);
  const omissions = [
    ...(nic.omissions ?? []),
    ...omissionMessage(
      "routes",
      lease.ipv4?.routes ?? [],
      routes.omissions.map(({ destination }) => destination),
    ),
    ...omissionMessage("search domains", dns.search, search.omissions),
    ...omissionMessage("NTP servers", ntpServers, ntp.omissions),
  ];
  if (omissions.length === 0) return nic;
  return {
    ...nic,
    lease: {
      ...lease,
      ...(lease.ipv4 === undefined ? {} : { ipv4: { ...lease.ipv4, routes: routes.fitting } }),
    },
    dns: { ...dns, search: search.fitting },
    options: ntp.omissions.length === 0 ? options : { ...options, ntpServers: ntp.fitting },
    omissions,
  };
}
