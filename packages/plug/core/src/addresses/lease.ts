// SPDX-License-Identifier: Apache-2.0
// Which addresses and routes does the guest get from the pod, and from which address of the bridge does the pod answer?
import { IP_BITS, networkOf, parseIp, printAddress, type IpPrefix } from "@patchbay/api";

/** A route of a NIC. */
export interface NicRoute {
  /** ADDRESS/LENGTH; length 0 is the default route. */
  readonly destination: string;
  /** Absent: the destination is on the link. */
  readonly gateway?: string;
}

/** Addresses and routes as the kernel has them. */
export interface NicAddresses {
  /** ADDRESS/LENGTH: global ones that somebody set, not those that the kernel made of router advertisements. */
  readonly addresses: readonly string[];
  readonly routes: readonly NicRoute[];
}

/** What the agent wrote down before it took the addresses from the NIC. */
export interface RememberedAddresses extends NicAddresses {
  readonly podInterfaceName: string;
  /** Index of the NIC: one that is made anew under its name has another. */
  readonly index: number;
  /** Who answered for the gateway of IPv6 then; absent when nobody did, or there is none. */
  readonly gatewayMac?: string;
}

/** Whether ADDRESS/LENGTH is one that every link with IPv6 has. Source: RFC 4291 section 2.5.6 */
export function isIpv6LinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

/** Gateway of IPv6's default route. */
export function ipv6GatewayOf({ routes }: NicAddresses): string | undefined {
  return routes.find(({ destination }) => destination === "::/0")?.gateway;
}

/** By DHCP, for ever: the address is the guest's as long as the pod lives. */
interface Ipv4Lease {
  /** ADDRESS/LENGTH */
  readonly address: string;
  /** The bridge's own address, ADDRESS/LENGTH. */
  readonly server: string;
  /** The default route last. */
  readonly routes: readonly NicRoute[];
}

/** One address by DHCPv6. */
interface Ipv6Address {
  /** ADDRESS/LENGTH */
  readonly address: string;
  /** The bridge's own address in the same subnet, ADDRESS/LENGTH. */
  readonly server: string;
  /** Whether the subnet is on the link; else everything goes to the router. */
  readonly isOnLink: boolean;
}

/** By DHCPv6, which router advertisements tell of. */
interface Ipv6Lease {
  readonly addresses: readonly Ipv6Address[];
  /** The guest's default route leads to the bridge. */
  readonly isRouter: boolean;
}

/** What a guest is given. */
export interface GuestLease {
  readonly ipv4?: Ipv4Lease;
  readonly ipv6?: Ipv6Lease;
}

/** Link-local, so that it is nobody's on any network. Source: KubeVirt, in-pod bridge of a NIC with an address. */
const SERVER = "169.254.75.10/32";
/** Longest prefix that has an address which is no host's. Source: RFC 4291 section 2.6.1; RFC 6164. */
const SUBNET_MAX = 126;
/**
 * Length of the subnet that is served for a prefix without room for another address, and for one that is shorter, which
 * dnsmasq refuses. Source: RFC 4291 section 2.5.4; dnsmasq(8), --dhcp-range
 */
export const IPV6_SUBNET = 64;

function isDefault(route: NicRoute): boolean {
  return route.destination.endsWith("/0");
}

function ofVersion<T>(
  version: 4 | 6,
  items: readonly T[],
  textOf: (item: T) => string,
): readonly { readonly item: T; readonly ip: IpPrefix }[] {
  return items.flatMap((item) => {
    const ip = parseIp(textOf(item));
    return ip?.version === version ? [{ item, ip }] : [];
  });
}

function ipv4LeaseOf({ addresses, routes }: NicAddresses): Ipv4Lease | undefined {
  const first = ofVersion(4, addresses, (address) => address)[0];
  if (first === undefined) return undefined;
  const own = ofVersion(4, routes, ({ destination }) => destination).map(({ item }) => item);
  return {
    address: first.item,
    server: SERVER,
    routes: [...own.filter((route) => !isDefault(route)), ...own.filter(isDefault)],
  };
}

/** The subnet's address of its routers, which is no host's. Source: RFC 4291 section 2.6.1 */
function ipv6AddressOf(address: string, ip: IpPrefix): Ipv6Address {
  const isOnLink = ip.length >= IPV6_SUBNET && ip.length <= SUBNET_MAX;
  const length = isOnLink ? ip.length : IPV6_SUBNET;
  const server = `${printAddress(networkOf({ ...ip, length }))}/${String(length)}`;
  return { address, server, isOnLink };
}

function ipv6LeaseOf(remembered: RememberedAddresses): Ipv6Lease | undefined {
  const addresses = ofVersion(6, remembered.addresses, (address) => address);
  if (addresses.length === 0) return undefined;
  return {
    addresses: addresses.map(({ item, ip }) => ipv6AddressOf(item, ip)),
    isRouter: remembered.gatewayMac !== undefined,
  };
}

/** What a guest that has the NIC's place on the network is given; undefined: nothing, the network has no addresses of its own. */
export function leaseOfRemembered(
  remembered: RememberedAddresses | undefined,
): GuestLease | undefined {
  if (remembered === undefined) return undefined;
  const [ipv4, ipv6] = [ipv4LeaseOf(remembered), ipv6LeaseOf(remembered)];
  if (ipv4 === undefined && ipv6 === undefined) return undefined;
  return {
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
  };
}

/** One subnet of guest and pod. */
interface Subnet {
  /** The bridge's address, ADDRESS/LENGTH. */
  readonly gateway: string;
  /** The guest's, without. */
  readonly guest: string;
}

function lengthOf(prefix: string): string {
  return String(parseIp(prefix)?.length ?? IP_BITS[4]);
}

/** What a guest behind the pod's own addresses is given: the bridge is its gateway. */
export function leaseBehindPod(subnets: {
  readonly ipv4?: Subnet;
  readonly ipv6?: Subnet;
}): GuestLease {
  const { ipv4, ipv6 } = subnets;
  return {
    ...(ipv4 === undefined ? {} : { ipv4: ipv4LeaseBehind(ipv4) }),
    ...(ipv6 === undefined ? {} : { ipv6: ipv6LeaseBehind(ipv6) }),
  };
}

function ipv4LeaseBehind({ gateway, guest }: Subnet): Ipv4Lease {
  const [address = ""] = gateway.split("/");
  return {
    address: `${guest}/${lengthOf(gateway)}`,
    server: gateway,
    routes: [{ destination: "0.0.0.0/0", gateway: address }],
  };
}

function ipv6LeaseBehind({ gateway, guest }: Subnet): Ipv6Lease {
  const address = `${guest}/${lengthOf(gateway)}`;
  return { addresses: [{ address, server: gateway, isOnLink: true }], isRouter: true };
}

type IpVersion = IpPrefix["version"];

/** Families in which the guest is told of a way out of its networks. */
export function waysOutOf({ ipv4, ipv6 }: GuestLease): readonly IpVersion[] {
  return [
    ...(ipv4?.routes.some(isDefault) === true ? ([4] as const) : []),
    ...(ipv6?.isRouter === true ? ([6] as const) : []),
  ];
}

/** The lease without its default routes of those families. */
export function withoutWaysOut(
  { ipv4, ipv6 }: GuestLease,
  versions: readonly IpVersion[],
): GuestLease {
  const inner = (routes: readonly NicRoute[]): readonly NicRoute[] =>
    versions.includes(4) ? routes.filter((route) => !isDefault(route)) : routes;
  return {
    ...(ipv4 === undefined ? {} : { ipv4: { ...ipv4, routes: inner(ipv4.routes) } }),
    ...(ipv6 === undefined
      ? {}
      : { ipv6: { ...ipv6, isRouter: ipv6.isRouter && !versions.includes(6) } }),
  };
}

/** The bridge's own addresses that a lease is given from, each once. */
export function serversOf({ ipv4, ipv6 }: GuestLease): readonly string[] {
  const all = [...(ipv4 === undefined ? [] : [ipv4]), ...(ipv6?.addresses ?? [])];
  return [...new Set(all.map(({ server }) => server))];
}
