// SPDX-License-Identifier: Apache-2.0
// IPv4 networks as numbers.
import { isIPv4 } from "node:net";

/** A network. */
export interface Network {
  readonly first: number;
  readonly last: number;
  /** In CIDR form. */
  readonly text: string;
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0);
}

/** Reads CIDR form; undefined: it is none. */
export function parseNetwork(text: string): Network | undefined {
  const [address = "", length = ""] = text.split("/");
  if (!isIPv4(address) || !/^(?:[89]|1\d|2\d|30)$/.test(length)) return undefined;
  const size = 2 ** (32 - Number(length));
  const first = numberOf(address);
  return first % size === 0 ? { first, last: first + size - 1, text } : undefined;
}

/** Whether an IPv4 address is in it. */
export function contains({ first, last }: Network, address: string): boolean {
  const number = numberOf(address);
  return number >= first && number <= last;
}

/** The address at a distance from the network's own. */
export function addressAt({ first }: Network, distance: number): string {
  const number = first + distance;
  return [24, 16, 8, 0].map((shift) => String(Math.floor(number / 2 ** shift) % 256)).join(".");
}
