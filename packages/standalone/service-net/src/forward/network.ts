// SPDX-License-Identifier: Apache-2.0
import {
  isWithin,
  toNetworkAddress,
  parseIp,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";

export interface Network {
  readonly prefix: IpPrefix;
  readonly text: string;
}

const [PREFIX_LENGTH_MIN, PREFIX_LENGTH_MAX] = [8, 30];

export function parseNetwork(text: string): Network | undefined {
  const prefix = parseIp(text);
  if (
    prefix?.version !== 4 ||
    prefix.length < PREFIX_LENGTH_MIN ||
    prefix.length > PREFIX_LENGTH_MAX
  )
    return undefined;
  return toNetworkAddress(prefix).value === prefix.value ? { prefix, text } : undefined;
}

export function containsAddress({ prefix }: Network, address: string): boolean {
  const parsedAddress = parseIp(address);
  return parsedAddress !== undefined && isWithin(parsedAddress, prefix);
}

export function addressAt({ prefix }: Network, offset: number): string {
  return printAddress({ version: 4, value: prefix.value + BigInt(offset) });
}
