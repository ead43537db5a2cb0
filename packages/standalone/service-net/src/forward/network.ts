// SPDX-License-Identifier: Apache-2.0
import { isWithin, toNetworkAddress, parseIp, printAddress, type IpPrefix } from "@patchbay/api";

export interface Network {
  readonly prefix: IpPrefix;
  readonly text: string;
}

/** Prefix lengths, bits. Others are too small for Services, or too large for one machine. */
const [LENGTH_MIN, LENGTH_MAX] = [8, 30];

export function parseNetwork(text: string): Network | undefined {
  const prefix = parseIp(text);
  if (prefix?.version !== 4 || prefix.length < LENGTH_MIN || prefix.length > LENGTH_MAX)
    return undefined;
  return toNetworkAddress(prefix).value === prefix.value ? { prefix, text } : undefined;
}

export function contains({ prefix }: Network, address: string): boolean {
  const parsed = parseIp(address);
  return parsed !== undefined && isWithin(parsed, prefix);
}

export function addressAt({ prefix }: Network, distance: number): string {
  return printAddress({ version: 4, value: prefix.value + BigInt(distance) });
}
