// SPDX-License-Identifier: Apache-2.0
// DHCP settings of each NIC, derived from the spec and the recorded addresses.
import {
  isDefaultNetwork,
  names,
  type DhcpOptions,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import type { ObjectMeta } from "@patchbay/api/kubernetes";
import { parseIp } from "@patchbay/api/values";
import { findMtu, type IfaceFacts } from "../facts.ts";
import { findMac } from "../mac.ts";
import { buildIfaceNames } from "../names.ts";
import { findByName, ifacesOf } from "../nics.ts";
import { buildLease } from "../node-plan.ts";
import { buildHostname } from "../../vm/spec/guest-names.ts";
import {
  findIpv6Gateway,
  IPV6_SUBNET_LENGTH,
  isIpv6LinkLocal,
  listDefaultRouteFamilies,
  withDefaultRoute,
  withoutDefaultRoutes,
  withServerRoutes,
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
  /** Messages about settings that the DHCP server cannot offer. Unset if the server offers all settings. */
  readonly omissions?: readonly string[];
}

interface ServingFacts {
  readonly vmi: VirtualMachineInstance;
  readonly ifaces: readonly IfaceFacts[];
  readonly served?: readonly ServedNic[];
  readonly dns?: DnsSettings;
}

const NO_DNS: DnsSettings = { nameservers: [], search: [] };

/** Checks whether the pod can serve DHCP on the NIC. The server starts only on a wired NIC, but continues while the bridge exists. */
function isServable(
  { isWired, hasBridge }: IfaceFacts["links"],
  bridgeName: string,
  { served = [] }: ServingFacts,
): boolean {
  return isWired || (hasBridge && served.some((nic) => nic.bridgeName === bridgeName));
}

function isOnPodNetwork({ network }: IfaceFacts): boolean {
  return network !== undefined && isDefaultNetwork(network);
}

/** If a subdomain is set, puts the guest's domain first in the search list. Source: KubeVirt pkg/network/dns DomainNameWithSubdomain */
function withSubdomain(dns: DnsSettings, { metadata, spec }: VirtualMachineInstance): DnsSettings {
  const { subdomain = "" } = spec;
  const prefix = `${metadata.namespace ?? ""}.svc.`;
  const domain = dns.search.find((each) => each.startsWith(prefix));
  if (subdomain === "" || domain === undefined) return dns;
  const guestDomain = `${subdomain}.${domain}`;
  return { ...dns, search: [guestDomain, ...dns.search.filter((each) => each !== guestDomain)] };
}

/** Returns a warning if the interface that the default-route annotation names does not exist yet. `base`: path of `metadata`. */
export function findUnusedDefaultRoute(
  base: string,
  {
    metadata,
    spec,
  }: { readonly metadata?: Pick<ObjectMeta, "annotations"> | undefined; readonly spec: VmiSpec },
): readonly string[] {
  const annotation = names.DEFAULT_ROUTE_ANNOTATION;
  const name = metadata?.annotations?.[annotation];
  if (name === undefined || findByName(ifacesOf(spec), name) !== undefined) return [];
  return [`${base}.annotations[${annotation}] (there is no interface "${name}")`];
}

function findChosenRouter({ vmi, ifaces }: ServingFacts): IfaceFacts | undefined {
  const chosenName = vmi.metadata.annotations?.[names.DEFAULT_ROUTE_ANNOTATION];
  return ifaces.find(({ name, iface }) => name === chosenName && iface !== undefined);
}

/** Returns a NIC's lease without regard to other NICs. Adds an IPv4 default route if the user chose the NIC for the default route. */
function buildOwnLease(iface: IfaceFacts, facts: ServingFacts): GuestLease | undefined {
  const lease = buildLease(iface);
  const { remembered, attachment } = iface;
  if (lease === undefined || remembered === undefined || findChosenRouter(facts) !== iface)
    return lease;
  return withDefaultRoute(lease, remembered, attachment?.gateways ?? []);
}

/**
 * Returns the NIC through which the guest gets its default route of the address family. If the NIC that the user chose is wired and has
 * no lease, returns it, because its network itself may offer the guest a default route. Otherwise considers the NICs whose lease contains
 * a default route: prefers the chosen NIC, then the pod network's NIC, then the first in the spec.
 */
function findRouter(facts: ServingFacts, version: 4 | 6): IfaceFacts | undefined {
  const chosen = findChosenRouter(facts);
  if (chosen?.links.isWired === true && buildLease(chosen) === undefined) return chosen;
  const candidates = facts.ifaces.filter(
    (iface) =>
      iface.iface !== undefined &&
      listDefaultRouteFamilies(buildOwnLease(iface, facts) ?? {}).includes(version),
  );
  return (
    candidates.find((iface) => iface === chosen) ?? candidates.find(isOnPodNetwork) ?? candidates[0]
  );
}

/**
 * Removes the NIC's default route of an address family if {@link findRouter} returns another NIC, because the guest might use either route.
 * DNS settings: a NIC on the pod network gets the pod's, and routes to the name servers if its default route was removed. Any other NIC
 * gets its network's. If these are missing, it gets the pod's, provided that it has a default route and the VM has no NIC on the pod
 * network.
 */
function chooseLeaseAndDns(
  iface: IfaceFacts,
  lease: GuestLease,
  facts: ServingFacts,
): Pick<ServedNic, "lease" | "dns"> {
  const podDns = withSubdomain(facts.dns ?? NO_DNS, facts.vmi);
  const routedElsewhere = ([4, 6] as const).filter((version) => {
    const router = findRouter(facts, version);
    return router !== undefined && router.name !== iface.name;
  });
  const ownLease = withoutDefaultRoutes(lease, routedElsewhere);
  if (isOnPodNetwork(iface))
    return { lease: withServerRoutes(lease, ownLease, podDns.nameservers), dns: podDns };
  const hasPodDefaultRoute =
    !facts.ifaces.some(isOnPodNetwork) && listDefaultRouteFamilies(ownLease).length > 0;
  return { lease: ownLease, dns: iface.attachment?.dns ?? (hasPodDefaultRoute ? podDns : NO_DNS) };
}

/** Lists IPv6 routes that the guest does not get. dnsmasq announces only the default route. */
function listUnservedIpv6Routes(
  { remembered }: IfaceFacts,
  { ipv6 }: GuestLease,
): readonly string[] {
  if (remembered === undefined || ipv6 === undefined) return [];
  const router = findIpv6Gateway(remembered);
  return remembered.routes
    .filter(({ destination }) => parseIp(destination)?.version === 6)
    .filter(({ destination }) => destination !== "::/0" && !isIpv6LinkLocal(destination))
    .filter(({ destination }) => destination !== `${router ?? ""}/128`)
    .filter(({ gateway }) => !ipv6.isRouter || (gateway !== undefined && gateway !== router))
    .map(({ destination }) => destination);
}

/** Reports a NIC that the user chose for the default route, if its network has no gateway and `lease` therefore has no default route. */
function describeMissingGateway(
  iface: IfaceFacts,
  lease: GuestLease,
  facts: ServingFacts,
): readonly string[] {
  if (findChosenRouter(facts) !== iface || listDefaultRouteFamilies(lease).length > 0) return [];
  return [
    `the annotation ${names.DEFAULT_ROUTE_ANNOTATION} names this interface, but its network has no gateway that answers; add a default route to the network's ipam`,
  ];
}

function describeUnserved(iface: IfaceFacts, lease: GuestLease): readonly string[] {
  const { remembered } = iface;
  const { ipv4, ipv6 } = lease;
  const unservedAddresses = (remembered?.addresses ?? []).filter(
    (address) => parseIp(address)?.version === 4 && address !== ipv4?.address,
  );
  const shortPrefixes = (ipv6?.addresses ?? []).filter(
    ({ address, isOnLink }) => !isOnLink && (parseIp(address)?.length ?? 0) < IPV6_SUBNET_LENGTH,
  );
  return [
    ...unservedAddresses.map(
      (address) =>
        `IPv4 address ${address} is not served, because DHCP gives one address to a NIC; set it in the guest, or define one IPv4 range for the network`,
    ),
    ...(ipv6?.isRouter === true ? [] : shortPrefixes).map(
      ({ address }) =>
        `the guest gets ${address} without a route to its subnet, because no router answers there and router advertisements have no prefix shorter than /64; set the route in the guest, or use a /64`,
    ),
    ...listUnservedIpv6Routes(iface, lease).map(
      (destination) =>
        `the guest gets no route to ${destination}, because router advertisements contain only the default route; set the route in the guest`,
    ),
  ];
}

/** Removes leading zeros from NTP server addresses, because dnsmasq rejects leading zeros. */
function normalizeOptions({ iface }: IfaceFacts): DhcpOptions {
  const { dhcpOptions = {} } = iface ?? {};
  const { ntpServers } = dhcpOptions;
  if (ntpServers === undefined) return dhcpOptions;
  return { ...dhcpOptions, ntpServers: ntpServers.map(normalizeAddress) };
}

function toServedNics(iface: IfaceFacts, facts: ServingFacts): readonly ServedNic[] {
  const ownLease = buildOwnLease(iface, facts);
  const { bridgeName } = buildIfaceNames(iface.name, iface.podInterfaceName);
  if (ownLease === undefined || !isServable(iface.links, bridgeName, facts)) return [];
  const { lease, dns } = chooseLeaseAndDns(iface, ownLease, facts);
  const omissions = [
    ...describeMissingGateway(iface, ownLease, facts),
    ...describeUnserved(iface, lease),
  ];
  return [
    limitOptions({
      iface: iface.name,
      bridgeName,
      mac: (iface.device?.mac ?? findMac(iface)).toLowerCase(),
      mtu: findMtu(iface),
      hostname: buildHostname(facts.vmi),
      lease,
      dns,
      options: normalizeOptions(iface),
      ...(omissions.length === 0 ? {} : { omissions }),
    }),
  ];
}

export function buildServedNics(facts: ServingFacts): readonly ServedNic[] {
  return facts.ifaces.flatMap((iface) => toServedNics(iface, facts));
}

/** Maximum bytes of a DHCP option. dnsmasq does not split longer options, although RFC 3396 permits it. Source: RFC 2132 section 2 */
const OPTION_MAX = 255;
/** Maximum size of search domains in a router advertisement: 255 units of 8 bytes, minus the header. Source: RFC 8106 section 5.2 */
const ADVERTISED_SEARCH_MAX = 2032;
const IPV4_BYTES = 4;
const NAMED_ITEMS_MAX = 3;

interface NicWithOptions {
  readonly lease: GuestLease;
  readonly dns: DnsSettings;
  readonly options: DhcpOptions;
  readonly omissions?: readonly string[];
}

type SizedNic = NicWithOptions & Pick<ServedNic, "hostname">;

interface Fit<T> {
  readonly fitting: readonly T[];
  readonly omissions: readonly T[];
}

/** Splits `items` before the first item that does not fit into `max` bytes. `sizeOf` returns the size of a list in bytes. */
function fitIntoOption<T>(
  items: readonly T[],
  max: number,
  sizeOf: (prefix: readonly T[]) => number,
): Fit<T> {
  const firstOmitted = items.findIndex((_item, index) => sizeOf(items.slice(0, index + 1)) > max);
  const count = firstOmitted === -1 ? items.length : firstOmitted;
  return { fitting: items.slice(0, count), omissions: items.slice(count) };
}

/** Returns the length of a route in the DHCP option, in bytes: prefix length, significant destination bytes, gateway. Source: RFC 3442 */
function computeRouteSize({ destination }: NicRoute): number {
  return 1 + Math.ceil((parseIp(destination)?.length ?? 0) / 8) + IPV4_BYTES;
}

/** Returns a route's rank; lower ranks take precedence. On-link routes come first, because they make other routes' gateways reachable. */
function rankRoute({ destination, gateway }: NicRoute): number {
  if (gateway === undefined) return 0;
  return destination.endsWith("/0") ? 1 : 2;
}

/** Selects routes that fit into DHCP's option: first on-link routes, then default routes, then others. Retains the order of `routes`. */
export function fitRoutes(routes: readonly NicRoute[]): Fit<NicRoute> {
  const ranked = routes.toSorted((left, right) => rankRoute(left) - rankRoute(right));
  const { fitting } = fitIntoOption(ranked, OPTION_MAX, (prefix) =>
    prefix.reduce((sum, route) => sum + computeRouteSize(route), 0),
  );
  return {
    fitting: routes.filter((route) => fitting.includes(route)),
    omissions: routes.filter((route) => !fitting.includes(route)),
  };
}

function listSuffixes(domain: string): readonly string[] {
  const labels = domain.replace(/\.$/, "").split(".");
  return labels.map((_label, index) => labels.slice(index).join("."));
}

/**
 * Returns the size of the search domains in bytes. A repeated suffix becomes a pointer of two bytes. Source: RFC 3397 section
 * 2; dnsmasq 2.90 option.c, parse_dhcp_opt
 */
function computeSearchSize(domains: readonly string[]): number {
  const written = new Set<string>();
  let hasPointer = false;
  let size = 0;
  for (const domain of domains) {
    const suffixes = listSuffixes(domain);
    const repeated = suffixes.findIndex((suffix) => written.has(suffix));
    const newSuffixes = suffixes.slice(0, repeated === -1 ? suffixes.length : repeated);
    size += newSuffixes.reduce((sum, suffix) => sum + 1 + (suffix.split(".")[0] ?? "").length, 0);
    size += repeated === -1 ? 1 : 2;
    // After the first domain with a pointer, dnsmasq records no more suffixes to which later pointers could refer.
    hasPointer ||= repeated !== -1;
    if (!hasPointer) for (const suffix of newSuffixes) written.add(suffix);
  }
  return size;
}

function computePlainSearchSize(domains: readonly string[]): number {
  return domains.reduce((sum, domain) => sum + domain.replace(/\.$/, "").length + 2, 0);
}

export function fitSearch(search: readonly string[], hasIpv4: boolean): Fit<string> {
  return hasIpv4
    ? fitIntoOption(search, OPTION_MAX, computeSearchSize)
    : fitIntoOption(search, ADVERTISED_SEARCH_MAX, computePlainSearchSize);
}

function describeOmissions(
  pluralNoun: string,
  items: readonly unknown[],
  omissions: readonly string[],
): readonly string[] {
  if (omissions.length === 0) return [];
  const named = omissions.slice(0, NAMED_ITEMS_MAX).join(", ");
  const more = omissions.length > NAMED_ITEMS_MAX ? ", ..." : "";
  const count = `${String(omissions.length)} of ${String(items.length)}`;
  return [
    `${count} ${pluralNoun} do not fit into a DHCP option of ${String(OPTION_MAX)} bytes and are left out: ${named}${more}`,
  ];
}

/**
 * Bytes for options in the options field, in `file` and in `sname` of a 576-byte message, which every client accepts. Excludes the magic
 * cookie, the option that declares overload, and the end marks of `file` and `sname`. Source: RFC 2131 sections 2 and 4.1
 */
const [OPTIONS_FIELD_SIZE, FILE_FIELD_SIZE, SNAME_FIELD_SIZE] = [308 - 3, 128 - 1, 64 - 1];
/** Bytes of the options for message type, server identifier, lease times, netmask, broadcast address, MTU and the end of the list. */
const FIXED_OPTIONS_SIZE = 46;
/** Bytes of an option's code and length. Source: RFC 2132 section 2 */
const OPTION_HEADER_SIZE = 2;

function listOptionSizes({ hostname, dns, options, lease }: SizedNic): readonly number[] {
  const { bootFileName = "", tftpServerName = "", ntpServers = [], privateOptions = [] } = options;
  const routes = lease.ipv4?.routes ?? [];
  const [domain = ""] = dns.search;
  const nameservers = dns.nameservers.filter((server) => parseIp(server)?.version === 4);
  const sizes = [
    hostname.length,
    domain.replace(/\.$/, "").length,
    IPV4_BYTES, // the router
    routes.reduce((sum, route) => sum + computeRouteSize(route), 0),
    nameservers.length * IPV4_BYTES,
    computeSearchSize(dns.search),
    bootFileName.length,
    tftpServerName.length,
    ntpServers.length * IPV4_BYTES,
    ...privateOptions.map(({ value }) => value.length),
  ];
  return sizes.filter((size) => size > 0).map((size) => size + OPTION_HEADER_SIZE);
}

/** Checks whether all options fit into the fields together. Places the longest options first and splits no option. */
function fitTogether(sizes: readonly number[], fields: readonly number[]): boolean {
  const free = [...fields];
  return sizes
    .toSorted((left, right) => right - left)
    .every((size) => {
      const at = free.findIndex((bytes) => bytes >= size);
      if (at < 0) return false;
      free[at] = (free[at] ?? 0) - size;
      return true;
    });
}

/** Returns a warning if a DHCP message needs over 576 bytes. dnsmasq then omits some options, unless the client accepts longer messages. */
function describeLongMessage(nic: SizedNic): readonly string[] {
  if (nic.lease.ipv4 === undefined) return [];
  const sizes = listOptionSizes(nic);
  const fields = [
    OPTIONS_FIELD_SIZE - FIXED_OPTIONS_SIZE,
    // With network boot, these fields contain the names of the boot file and the server, so they have no space for options.
    ...(nic.options.bootFileName === undefined ? [FILE_FIELD_SIZE] : []),
    ...(nic.options.tftpServerName === undefined ? [SNAME_FIELD_SIZE] : []),
  ];
  if (fitTogether(sizes, fields)) return [];
  const total = sizes.reduce((sum, size) => sum + size, FIXED_OPTIONS_SIZE);
  return [
    `the DHCP options need ${String(total)} bytes and do not fit into a message of 576 bytes; a guest whose DHCP client accepts no longer messages does not get all of them; reduce routes, search domains or other options`,
  ];
}

/** Truncates lists in options to the sizes that dnsmasq accepts, and reports the omitted items in `omissions`. */
export function limitOptions<Nic extends SizedNic>(nic: Nic): Nic {
  const { lease, dns, options } = nic;
  const { ntpServers = [] } = options;
  const routes = fitRoutes(lease.ipv4?.routes ?? []);
  const search = fitSearch(dns.search, lease.ipv4 !== undefined);
  const ntp = fitIntoOption(ntpServers, OPTION_MAX, (prefix) => prefix.length * IPV4_BYTES);
  const fitted = {
    ...nic,
    lease: {
      ...lease,
      ...(lease.ipv4 === undefined ? {} : { ipv4: { ...lease.ipv4, routes: routes.fitting } }),
    },
    dns: { ...dns, search: search.fitting },
    options: ntp.omissions.length === 0 ? options : { ...options, ntpServers: ntp.fitting },
  };
  const omissions = [
    ...(nic.omissions ?? []),
    ...describeOmissions(
      "routes",
      lease.ipv4?.routes ?? [],
      routes.omissions.map(({ destination }) => destination),
    ),
    ...describeOmissions("search domains", dns.search, search.omissions),
    ...describeOmissions("NTP servers", ntpServers, ntp.omissions),
    ...describeLongMessage(fitted),
  ];
  if (omissions.length === 0) return nic;
  return { ...fitted, omissions };
}
