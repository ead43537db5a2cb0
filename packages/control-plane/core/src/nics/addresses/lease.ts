// SPDX-License-Identifier: Apache-2.0
// Addresses and routes that the pod assigns to the guest by DHCP and router advertisements.
import {
  IP_BITS,
  toNetworkAddress,
  parseIp,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";

export interface NicRoute {
  /** Destination as ADDRESS/LENGTH. The default route has length 0. */
  readonly destination: string;
  readonly gateway?: string;
}

export interface NicNeighbor {
  /** IPv4 or IPv6 address, without prefix length. */
  readonly address: string;
  readonly mac: string;
}

export interface NicAddresses {
  /** Configured global addresses as ADDRESS/LENGTH, without addresses from router advertisements. */
  readonly addresses: readonly string[];
  readonly routes: readonly NicRoute[];
}

/** Addresses and routes of a pod NIC. virt-handler records them before it wires the NIC, because wiring removes the NIC's addresses. */
export interface RememberedAddresses extends NicAddresses {
  readonly podInterfaceName: string;
  /** ifindex of the NIC. A later NIC with the same name has a different ifindex. */
  readonly index: number;
  /** MAC of the IPv6 gateway. Unset if the NIC has no gateway or the gateway did not answer. */
  readonly gatewayMac?: string;
  /** Permanent neighbors, which the network's plugin sets for addresses that do not answer ARP or ND. Unset without such addresses. */
  readonly neighbors?: readonly NicNeighbor[];
}

/** Checks whether an ADDRESS/LENGTH is an IPv6 link-local address. Source: RFC 4291 section 2.5.6 */
export function isIpv6LinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

export function findIpv6Gateway({ routes }: NicAddresses): string | undefined {
  return routes.find(({ destination }) => destination === "::/0")?.gateway;
}

/** IPv4 lease. Its duration is infinite, because a pod keeps its address until the pod is deleted. */
interface Ipv4Lease {
  readonly address: string;
  /** Address of the DHCP server on the bridge, as ADDRESS/LENGTH. */
  readonly server: string;
  /** Routes for the guest. The default route is the last route. */
  readonly routes: readonly NicRoute[];
}

interface Ipv6Address {
  readonly address: string;
  /** Address of the bridge in the same subnet, as ADDRESS/LENGTH. */
  readonly server: string;
  /** Whether the guest reaches the subnet directly on its link. If not, the guest reaches the subnet only through its router, if any. */
  readonly isOnLink: boolean;
}

interface Ipv6Lease {
  readonly addresses: readonly Ipv6Address[];
  readonly isRouter: boolean;
}

export interface GuestLease {
  readonly ipv4?: Ipv4Lease;
  readonly ipv6?: Ipv6Lease;
}

/**
 * Address of the DHCP server. It is link-local, so that it does not collide with a network's subnet.
 * Source: KubeVirt, address of the in-pod bridge (binding bridge)
 */
const SERVER_ADDRESS = "169.254.75.10/32";
/** Longest prefix length with a subnet-router anycast address. Source: RFC 4291 section 2.6.1; RFC 6164. */
const SUBNET_LENGTH_MAX = 126;
/** Usual length of an IPv6 subnet prefix, and the shortest length that dnsmasq serves. Source: RFC 4291 section 2.5.4; dnsmasq(8). */
export const IPV6_SUBNET_LENGTH = 64;

const DEFAULT_DESTINATION = "0.0.0.0/0";

function isDefault(route: NicRoute): boolean {
  return route.destination.endsWith("/0");
}

function filterByVersion<T>(
  version: 4 | 6,
  items: readonly T[],
  textOf: (item: T) => string,
): readonly { readonly item: T; readonly ip: IpPrefix }[] {
  return items.flatMap((item) => {
    const ip = parseIp(textOf(item));
    return ip?.version === version ? [{ item, ip }] : [];
  });
}

function isInside(address: string, prefix: string): boolean {
  const [inner, outer] = [parseIp(address), parseIp(prefix)];
  if (inner === undefined || inner.version !== outer?.version) return false;
  return (
    toNetworkAddress({ ...inner, length: outer.length }).value === toNetworkAddress(outer).value
  );
}

/**
 * Returns an on-link route to each gateway that is neither in the guest's subnet nor in the destination of an on-link route. The pod needs
 * no such route if its routes have the flag `onlink`, which DHCP cannot transmit to the guest.
 */
function listGatewayRoutes(address: string, routes: readonly NicRoute[]): readonly NicRoute[] {
  const onLink = routes.flatMap((route) =>
    route.gateway === undefined ? [route.destination] : [],
  );
  const gateways = new Set(routes.flatMap(({ gateway }) => gateway ?? []));
  return [...gateways]
    .filter((gateway) => ![address, ...onLink].some((prefix) => isInside(gateway, prefix)))
    .map((gateway) => ({ destination: `${gateway}/${String(IP_BITS[4])}` }));
}

function listRoutes({ routes }: NicAddresses, version: 4 | 6): readonly NicRoute[] {
  return filterByVersion(version, routes, ({ destination }) => destination).map(({ item }) => item);
}

function toIpv4Lease(remembered: NicAddresses): Ipv4Lease | undefined {
  const firstAddress = filterByVersion(4, remembered.addresses, (address) => address)[0];
  if (firstAddress === undefined) return undefined;
  const routes = listRoutes(remembered, 4);
  return {
    address: firstAddress.item,
    server: SERVER_ADDRESS,
    routes: [
      ...listGatewayRoutes(firstAddress.item, routes),
      ...routes.filter((route) => !isDefault(route)),
      ...routes.filter(isDefault),
    ],
  };
}

/** Neighbor for which the pod answers the guest's ARP requests or neighbor solicitations. */
export interface AnsweredNeighbor extends NicNeighbor {
  /** Destinations to which the guest sends through this neighbor, as ADDRESS/LENGTH. */
  readonly destinations: readonly string[];
}

/** Returns the permanent neighbors of the family, except those whose address the NIC itself has. */
export function listAnsweredNeighbors(
  remembered: RememberedAddresses,
  version: 4 | 6,
): readonly AnsweredNeighbor[] {
  const own = remembered.addresses.map((address) => address.split("/")[0]);
  return filterByVersion(version, remembered.neighbors ?? [], ({ address }) => address)
    .filter(({ item }) => !own.includes(item.address))
    .map(({ item: { address, mac } }) => {
      const routed = listRoutes(remembered, version).filter(({ gateway }) => gateway === address);
      const destinations = routed.map(({ destination }) => destination);
      const ownDestination = `${address}/${String(IP_BITS[version])}`;
      return { address, mac, destinations: [ownDestination, ...destinations] };
    });
}

/**
 * Builds the lease entry of an IPv6 address. The bridge that serves the guest gets the subnet-router anycast address, because no host in
 * the subnet uses that address. If dnsmasq cannot serve the prefix length, or the length has no anycast address (above 126), the bridge's
 * address is in the /64 around the guest's address, and the subnet is not on-link. Source: RFC 4291 section 2.6.1
 */
function toIpv6Address(address: string, ip: IpPrefix): Ipv6Address {
  const isOnLink = ip.length >= IPV6_SUBNET_LENGTH && ip.length <= SUBNET_LENGTH_MAX;
  const length = isOnLink ? ip.length : IPV6_SUBNET_LENGTH;
  const server = `${printAddress(toNetworkAddress({ ...ip, length }))}/${String(length)}`;
  return { address, server, isOnLink };
}

function toIpv6Lease(remembered: RememberedAddresses): Ipv6Lease | undefined {
  const addresses = filterByVersion(6, remembered.addresses, (address) => address);
  if (addresses.length === 0) return undefined;
  return {
    addresses: addresses.map(({ item, ip }) => toIpv6Address(item, ip)),
    isRouter: remembered.gatewayMac !== undefined,
  };
}

/** Returns the lease that assigns the pod NIC's addresses to the guest; undefined if no addresses are recorded. */
export function buildRecordedLease(
  remembered: RememberedAddresses | undefined,
): GuestLease | undefined {
  if (remembered === undefined) return undefined;
  const [ipv4, ipv6] = [toIpv4Lease(remembered), toIpv6Lease(remembered)];
  if (ipv4 === undefined && ipv6 === undefined) return undefined;
  return {
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
  };
}

interface Subnet {
  readonly gateway: string;
  /** Guest's address, without prefix length. */
  readonly guest: string;
}

function readPrefixLength(prefix: string): string {
  return String(parseIp(prefix)?.length ?? IP_BITS[4]);
}

export function buildMasqueradeLease(subnets: {
  readonly ipv4?: Subnet;
  readonly ipv6?: Subnet;
}): GuestLease {
  const { ipv4, ipv6 } = subnets;
  return {
    ...(ipv4 === undefined ? {} : { ipv4: buildIpv4MasqueradeLease(ipv4) }),
    ...(ipv6 === undefined ? {} : { ipv6: buildIpv6MasqueradeLease(ipv6) }),
  };
}

function buildIpv4MasqueradeLease({ gateway, guest }: Subnet): Ipv4Lease {
  const [address = ""] = gateway.split("/");
  return {
    address: `${guest}/${readPrefixLength(gateway)}`,
    server: gateway,
    routes: [{ destination: DEFAULT_DESTINATION, gateway: address }],
  };
}

function buildIpv6MasqueradeLease({ gateway, guest }: Subnet): Ipv6Lease {
  const address = `${guest}/${readPrefixLength(gateway)}`;
  return { addresses: [{ address, server: gateway, isOnLink: true }], isRouter: true };
}

type IpVersion = IpPrefix["version"];

export function listDefaultRouteFamilies({ ipv4, ipv6 }: GuestLease): readonly IpVersion[] {
  return [
    ...(ipv4?.routes.some(isDefault) === true ? ([4] as const) : []),
    ...(ipv6?.isRouter === true ? ([6] as const) : []),
  ];
}

export function withoutDefaultRoutes(
  { ipv4, ipv6 }: GuestLease,
  versions: readonly IpVersion[],
): GuestLease {
  const withoutDefault = (routes: readonly NicRoute[]): readonly NicRoute[] =>
    versions.includes(4) ? routes.filter((route) => !isDefault(route)) : routes;
  return {
    ...(ipv4 === undefined ? {} : { ipv4: { ...ipv4, routes: withoutDefault(ipv4.routes) } }),
    ...(ipv6 === undefined
      ? {}
      : { ipv6: { ...ipv6, isRouter: ipv6.isRouter && !versions.includes(6) } }),
  };
}

/**
 * Adds an IPv4 default route through the network's first IPv4 gateway, unless the lease has a default route. Adds none if the gateway is a
 * permanent neighbor: the pod redirects traffic to such a neighbor only for the routes in `remembered`, so the added route would not work.
 */
export function withDefaultRoute(
  lease: GuestLease,
  remembered: RememberedAddresses,
  gateways: readonly string[],
): GuestLease {
  const gateway = gateways.find((address) => parseIp(address)?.version === 4);
  const isPermanent = remembered.neighbors?.some(({ address }) => address === gateway) === true;
  if (gateway === undefined || isPermanent || listDefaultRouteFamilies(lease).includes(4))
    return lease;
  const routes = [...remembered.routes, { destination: DEFAULT_DESTINATION, gateway }];
  const ipv4 = toIpv4Lease({ ...remembered, routes });
  return ipv4 === undefined ? lease : { ...lease, ipv4 };
}

/**
 * Returns the lease `kept`. If only `lease` has an IPv4 default route, adds routes through that route's gateway: one to each IPv4 name
 * server that the guest could not reach otherwise. Adds no IPv6 routes, because router advertisements contain only the default route.
 */
export function withServerRoutes(
  lease: GuestLease,
  kept: GuestLease,
  nameservers: readonly string[],
): GuestLease {
  const gateway = lease.ipv4?.routes.find(isDefault)?.gateway;
  if (gateway === undefined || kept.ipv4 === undefined || kept.ipv4.routes.some(isDefault))
    return kept;
  const { address, routes } = kept.ipv4;
  const reached = [address, ...routes.map(({ destination }) => destination)];
  const missing = nameservers
    .filter((server) => parseIp(server)?.version === 4)
    .filter((server) => !reached.some((prefix) => isInside(server, prefix)))
    .map((server) => ({ destination: `${server}/${String(IP_BITS[4])}`, gateway }));
  return { ...kept, ipv4: { ...kept.ipv4, routes: [...routes, ...missing] } };
}

export function listServerAddresses({ ipv4, ipv6 }: GuestLease): readonly string[] {
  const all = [...(ipv4 === undefined ? [] : [ipv4]), ...(ipv6?.addresses ?? [])];
  return [...new Set(all.map(({ server }) => server))];
}
