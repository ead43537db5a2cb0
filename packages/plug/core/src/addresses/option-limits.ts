// SPDX-License-Identifier: Apache-2.0
// Cuts DHCP options to the size that the server accepts, and reports what is left out. dnsmasq refuses to start with an option
// that is too long, and does not split options as RFC 3396 allows.
import { parseIp, type DhcpOptions } from "@patchbay/api";
import type { GuestLease } from "./lease.ts";
import type { NicRoute } from "./nic-addresses.ts";
import type { DnsSettings } from "./resolver.ts";

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
