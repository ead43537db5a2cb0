// SPDX-License-Identifier: Apache-2.0
// Which address does a text mean? An IPv6 address has many spellings.
import { isIP, SocketAddress } from "node:net";

/** Most bits of a prefix by family. */
const PREFIX_MAX = { 4: 32, 6: 128 } as const;

/** An address as a person wrote it, with or without a prefix. */
export interface Address {
  /** In the one spelling in which addresses are compared. */
  readonly address: string;
  /** Bits. */
  readonly prefix?: number;
}

/** Reads ADDRESS or ADDRESS/PREFIX; undefined when it is neither. */
export function parseAddress(text: string): Address | undefined {
  const [, ip = "", bits] = /^([^/]{1,45})(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const family = isIP(ip);
  // A zone names a link of one machine: it is no address for anybody else.
  if ((family !== 4 && family !== 6) || ip.includes("%")) return undefined;
  const { address } = new SocketAddress({ address: ip, family: family === 4 ? "ipv4" : "ipv6" });
  if (bits === undefined) return { address };
  const prefix = Number(bits);
  return prefix > PREFIX_MAX[family] ? undefined : { address, prefix };
}
