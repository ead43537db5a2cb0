// SPDX-License-Identifier: Apache-2.0
// IPv4 networks of this machine.
import { isWithin, networkOf, parseIp, printAddress, type IpPrefix } from "@patchbay/api";

/** A network. */
export interface Network {
  readonly prefix: IpPrefix;
  /** In CIDR form. */
  readonly text: string;
}

/** Shorter or longer ones have no room, or are no network of one machine. Bits. */
const [LENGTH_MIN, LENGTH_MAX] = [8, 30];

/** Reads CIDR form; undefined: it is none. */
export function parseNetwork(text: string): Network | undefined {
  const prefix = parseIp(text);
  if (prefix?.version !== 4 || prefix.length < LENGTH_MIN || prefix.length > LENGTH_MAX)
    return undefined;
  return networkOf(prefix).value === prefix.value ? { prefix, text } : undefined;
}

/** Whether an IPv4 address is in it. */
export function contains({ prefix }: Network, address: string): boolean {
  const parsed = parseIp(address);
  return parsed !== undefined && isWithin(parsed, prefix);
}

/** The address at a distance from the network's own. */
export function addressAt({ prefix }: Network, distance: number): string {
  return printAddress({ version: 4, value: prefix.value + BigInt(distance) });
}
