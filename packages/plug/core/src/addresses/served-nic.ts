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
import { hostnameOf } from "../spec/guest-names.ts";
import { IPV6_SUBNET, waysOutOf, withoutWaysOut, type GuestLease, type NicRoute } from "./lease.ts";
import { normalizeAddress, type DnsSettings } from "./resolver.ts";

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
interface ServingFacts {
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

/** Bytes of one option. Source: RFC 2132 section 2 */
const OPTION_MAX = 255;
/** Bytes of search domains in a router advertisement: 255 units of 8, less the header. Source: RFC 8106 section 5.2 */
const ADVERTISED_SEARCH_MAX = 2032;
const IPV4_BYTES = 4;
/** How many items a message names. */
const NAMED_MAX = 3;

/** What of a served NIC becomes options. */
interface WithOptions {
  readonly lease: GuestLease;
  readonly dns: DnsSettings;
  readonly options: DhcpOptions;
  /** What is left out already, one message each. */
  readonly leftOut?: readonly string[];
}

/** What has room, and what has not. */
interface Fit<T> {
  readonly fitting: readonly T[];
  readonly leftOut: readonly T[];
}

/** Takes items in their order while there is room; `sizeOf` is the size of the list so far with one more item. */
function takeFirst<T>(
  items: readonly T[],
  max: number,
  sizeOf: (taken: readonly T[]) => number,
): Fit<T> {
  const beyond = items.findIndex((_item, at) => sizeOf(items.slice(0, at + 1)) > max);
  const count = beyond === -1 ? items.length : beyond;
  return { fitting: items.slice(0, count), leftOut: items.slice(count) };
}

/** Bytes of a route: the length, the destination's significant bytes, the gateway. Source: RFC 3442 */
function routeSize({ destination }: NicRoute): number {
  return 1 + Math.ceil((parseIp(destination)?.length ?? 0) / 8) + IPV4_BYTES;
}

/** Lower ranks are kept first: without them the guest reaches neither its gateways nor other networks. */
function rankOf({ destination, gateway }: NicRoute): number {
  if (gateway === undefined) return 0;
  return destination.endsWith("/0") ? 1 : 2;
}

/** Keeps routes on the link and default routes before others; the order stays as it was. */
export function fitRoutes(routes: readonly NicRoute[]): Fit<NicRoute> {
  const ranked = routes.toSorted((left, right) => rankOf(left) - rankOf(right));
  const { fitting } = takeFirst(ranked, OPTION_MAX, (taken) =>
    taken.reduce((sum, route) => sum + routeSize(route), 0),
  );
  return {
    fitting: routes.filter((route) => fitting.includes(route)),
    leftOut: routes.filter((route) => !fitting.includes(route)),
  };
}

/** The name and its parents: `a.b` and `b`. */
function suffixesOf(domain: string): readonly string[] {
  const labels = domain.replace(/\.$/, "").split(".");
  return labels.map((_label, at) => labels.slice(at).join("."));
}

/**
 * Bytes of a list of search domains: a suffix that was written in full before is a pointer of two bytes.
 * Source: RFC 3397 section 2; dnsmasq 2.90 option.c, parse_dhcp_opt
 */
function searchSize(domains: readonly string[]): number {
  const written = new Set<string>();
  let hasPointer = false;
  let size = 0;
  for (const domain of domains) {
    const suffixes = suffixesOf(domain);
    const known = suffixes.findIndex((suffix) => written.has(suffix));
    const own = suffixes.slice(0, known === -1 ? suffixes.length : known);
    size += own.reduce((sum, suffix) => sum + 1 + (suffix.split(".")[0] ?? "").length, 0);
    size += known === -1 ? 1 : 2;
    // dnsmasq finds no names behind the first pointer.
    hasPointer ||= known !== -1;
    if (!hasPointer) for (const suffix of own) written.add(suffix);
  }
  return size;
}

/** Bytes of the names without pointers. */
function plainSize(domains: readonly string[]): number {
  return domains.reduce((sum, domain) => sum + domain.replace(/\.$/, "").length + 2, 0);
}

/** Keeps the first search domains that have room. */
export function fitSearch(search: readonly string[], hasIpv4: boolean): Fit<string> {
  return hasIpv4
    ? takeFirst(search, OPTION_MAX, searchSize)
    : takeFirst(search, ADVERTISED_SEARCH_MAX, plainSize);
}

function leftOutMessage(
  what: string,
  all: readonly unknown[],
  leftOut: readonly string[],
): readonly string[] {
  if (leftOut.length === 0) return [];
  const named = leftOut.slice(0, NAMED_MAX).join(", ");
  const more = leftOut.length > NAMED_MAX ? ", ..." : "";
  const count = `${String(leftOut.length)} of ${String(all.length)}`;
  return [
    `${count} ${what} do not fit into a DHCP option of ${String(OPTION_MAX)} bytes and are left out: ${named}${more}`,
  ];
}

/** The NIC with options that the server accepts, and why some are not complete. */
export function withFittingOptions<Nic extends WithOptions>(nic: Nic): Nic {
  const { lease, dns, options } = nic;
  const { ntpServers = [] } = options;
  const routes = fitRoutes(lease.ipv4?.routes ?? []);
  const search = fitSearch(dns.search, lease.ipv4 !== undefined);
  const ntp = takeFirst(ntpServers, OPTION_MAX, (taken) => taken.length * IPV4_BYTES);
  const leftOut = [
    ...(nic.leftOut ?? []),
    ...leftOutMessage(
      "routes",
      lease.ipv4?.routes ?? [],
      routes.leftOut.map(({ destination }) => destination),
    ),
    ...leftOutMessage("search domains", dns.search, search.leftOut),
    ...leftOutMessage("NTP servers", ntpServers, ntp.leftOut),
  ];
  if (leftOut.length === 0) return nic;
  return {
    ...nic,
    lease: {
      ...lease,
      ...(lease.ipv4 === undefined ? {} : { ipv4: { ...lease.ipv4, routes: routes.fitting } }),
    },
    dns: { ...dns, search: search.fitting },
    options: ntp.leftOut.length === 0 ? options : { ...options, ntpServers: ntp.fitting },
    leftOut,
  };
}
