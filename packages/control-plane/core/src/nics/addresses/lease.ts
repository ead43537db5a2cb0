// SPDX-License-Identifier: Apache-2.0
// Addresses and routes that the pod assigns to the guest by DHCP.
import {
  IP_BITS,
  toNetworkAddress,
  parseIp,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";

export interface NicRoute {
  /** Destination as ADDRESS/LENGTH. The length is 0 for the default route. */
  readonly destination: string;
  /** Unset if the destination is on the link. */
  readonly gateway?: string;
}

export interface NicAddresses {
  /** Configured global addresses as ADDRESS/LENGTH, without addresses from router advertisements. */
  readonly addresses: readonly string[];
  readonly routes: readonly NicRoute[];
}

/** Addresses that virt-handler recorded before it removed them from the NIC. */
export interface RememberedAddresses extends NicAddresses {
  readonly podInterfaceName: string;
  /** ifindex, which distinguishes the NIC from a later one with the same name. */
  readonly index: number;
  /** MAC of the IPv6 gateway. Unset if there was no gateway or it did not answer. */
  readonly gatewayMac?: string;
}

/** Whether an ADDRESS/LENGTH is an IPv6 link-local address. Source: RFC 4291 section 2.5.6 */
export function isIpv6LinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

export function findIpv6Gateway({ routes }: NicAddresses): string | undefined {
  return routes.find(({ destination }) => destination === "::/0")?.gateway;
}

/** An infinite DHCP lease, because the guest has the address as long as the pod exists. */
interface Ipv4Lease {
  readonly address: string;
  /** The bridge's own address, ADDRESS/LENGTH. */
  readonly server: string;
  /** Routes for the guest, the default route last. */
  readonly routes: readonly NicRoute[];
}

interface Ipv6Address {
  readonly address: string;
  /** The bridge's own address in the same subnet, ADDRESS/LENGTH. */
  readonly server: string;
  /** Whether the subnet is on the link. Otherwise all traffic goes to the router. */
  readonly isOnLink: boolean;
}

/** DHCPv6 addresses, announced by router advertisements. */
interface Ipv6Lease {
  readonly addresses: readonly Ipv6Address[];
  /** Whether the bridge is the guest's default router. */
  readonly isRouter: boolean;
}

export interface GuestLease {
  readonly ipv4?: Ipv4Lease;
  readonly ipv6?: Ipv6Lease;
}

/** Address of the DHCP server. It is link-local, so that it collides with no network. Source: KubeVirt, in-pod bridge of a NIC with an address. */
const SERVER_ADDRESS = "169.254.75.10/32";
/** Longest prefix with a subnet-router anycast address. Source: RFC 4291 section 2.6.1; RFC 6164. */
const SUBNET_LENGTH_MAX = 126;
/**
 * Prefix length that replaces prefixes with no room for a server's address, and prefixes shorter than this, which dnsmasq
 * rejects. Source: RFC 4291 section 2.5.4; dnsmasq(8), --dhcp-range
 */
export const IPV6_SUBNET_LENGTH = 64;

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

function toIpv4Lease({ addresses, routes }: NicAddresses): Ipv4Lease | undefined {
  const first = filterByVersion(4, addresses, (address) => address)[0];
  if (first === undefined) return undefined;
  const own = filterByVersion(4, routes, ({ destination }) => destination).map(({ item }) => item);
  return {
    address: first.item,
    server: SERVER_ADDRESS,
    routes: [...own.filter((route) => !isDefault(route)), ...own.filter(isDefault)],
  };
}

/** Assigns the subnet-router anycast address to the server, because no host has it. Source: RFC 4291 section 2.6.1 */
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

/** Returns the lease of a guest that replaces the pod's NIC on the network; undefined if the network assigned no addresses. */
export function leaseFromRecorded(
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
  /** Without prefix length. */
  readonly guest: string;
}

function readPrefixLength(prefix: string): string {
  return String(parseIp(prefix)?.length ?? IP_BITS[4]);
}

export function leaseForMasquerade(subnets: {
  readonly ipv4?: Subnet;
  readonly ipv6?: Subnet;
}): GuestLease {
  const { ipv4, ipv6 } = subnets;
  return {
    ...(ipv4 === undefined ? {} : { ipv4: ipv4LeaseForMasquerade(ipv4) }),
    ...(ipv6 === undefined ? {} : { ipv6: ipv6LeaseForMasquerade(ipv6) }),
  };
}

function ipv4LeaseForMasquerade({ gateway, guest }: Subnet): Ipv4Lease {
  const [address = ""] = gateway.split("/");
  return {
    address: `${guest}/${readPrefixLength(gateway)}`,
    server: gateway,
    routes: [{ destination: "0.0.0.0/0", gateway: address }],
  };
}

function ipv6LeaseForMasquerade({ gateway, guest }: Subnet): Ipv6Lease {
  const address = `${guest}/${readPrefixLength(gateway)}`;
  return { addresses: [{ address, server: gateway, isOnLink: true }], isRouter: true };
}

type IpVersion = IpPrefix["version"];

export function defaultRouteFamilies({ ipv4, ipv6 }: GuestLease): readonly IpVersion[] {
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

export function listServerAddresses({ ipv4, ipv6 }: GuestLease): readonly string[] {
  const all = [...(ipv4 === undefined ? [] : [ipv4]), ...(ipv6?.addresses ?? [])];
  return [...new Set(all.map(({ server }) => server))];
}
