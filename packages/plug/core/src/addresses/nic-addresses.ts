// SPDX-License-Identifier: Apache-2.0
// What CNI gave to a NIC of the pod, and what is remembered of it when it has moved to the guest.

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
