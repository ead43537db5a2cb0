// SPDX-License-Identifier: Apache-2.0
// The frames by which a network hears where a guest is: what QEMU sends for one that has come, and what a guest sends itself.
import { IP_BITS, parseIp, type IpPrefix } from "@patchbay/api";
import type { AnnouncedNic } from "@patchbay/core/ports";
import { addressBytes } from "./netlink/change-messages.ts";
import { macBytes } from "./netlink/write.ts";

/** Bytes of the shortest frame, without its check sum. Source: IEEE 802.3 */
const FRAME_MIN = 60;
/** Source: IEEE 802 numbers, EtherType. */
const [ARP, RARP, IPV6] = [0x0806, 0x8035, 0x86dd];
/** Source: RFC 826, RFC 903 */
const [ASKS, ASKS_REVERSE] = [1, 3];
const EVERYBODY = Buffer.alloc(6, 0xff);
const NOBODY = Buffer.alloc(6);
/** All nodes on the link. Source: RFC 4291 2.7.1, RFC 2464 7 */
const ALL_NODES = Buffer.from("ff020000000000000000000000000001", "hex");
const ALL_NODES_MAC = Buffer.from("333300000001", "hex");

/** 16 bits, as networks have them. */
export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

/** A frame, filled up to the shortest that there may be. */
export function frameOf(to: Uint8Array, from: Uint8Array, rest: readonly Uint8Array[]): Uint8Array {
  const frame = Buffer.concat([to, from, ...rest]);
  return Buffer.concat([frame, Buffer.alloc(Math.max(0, FRAME_MIN - frame.length))]);
}

/** Of who asks about itself. */
interface Question {
  readonly type: number;
  readonly operation: number;
  /** Of IPv4; both ends'. */
  readonly address: Uint8Array;
  readonly askedMac: Uint8Array;
}

function questionOf(mac: Uint8Array, question: Question): Uint8Array {
  const { type, operation, address, askedMac } = question;
  const kinds = Buffer.from([0, 1, 8, 0, 6, 4]);
  const ends = [mac, address, askedMac, address];
  return frameOf(EVERYBODY, mac, [u16(type), kinds, u16(operation), ...ends]);
}

/** Source: RFC 1071 */
export function checksumOf(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** Nobody has asked, and who knows another MAC forgets it. Source: RFC 4861 4.4 */
function advertisementOf(mac: Uint8Array, address: Uint8Array): Uint8Array {
  const [advertisement, overrides, macOption] = [136, 0x20, 2];
  const message = Buffer.concat([
    Buffer.from([advertisement, 0, 0, 0, overrides, 0, 0, 0]),
    address,
    Buffer.from([macOption, 1]),
    mac,
  ]);
  const icmp = 58;
  const summed = [address, ALL_NODES, Buffer.from([0, 0]), u16(message.length)];
  const sum = checksumOf(Buffer.concat([...summed, Buffer.from([0, 0, 0, icmp]), message]));
  message.writeUInt16BE(sum, 2);
  const hops = 255;
  const head = [Buffer.from([0x60, 0, 0, 0]), u16(message.length), Buffer.from([icmp, hops])];
  return frameOf(ALL_NODES_MAC, mac, [u16(IPV6), ...head, address, ALL_NODES, message]);
}

function toldOf(mac: Uint8Array, ip: IpPrefix): Uint8Array {
  const address = addressBytes(ip);
  return ip.version === 4
    ? questionOf(mac, { type: ARP, operation: ASKS, address, askedMac: NOBODY })
    : advertisementOf(mac, address);
}

/** One frame for switches, and one for the neighbours of each address; what is no address is left out. */
export function announcementsOf({ mac, addresses }: AnnouncedNic): readonly Uint8Array[] {
  const bytes = macBytes(mac);
  const address = Buffer.alloc(IP_BITS[4] / 8);
  const heard = { type: RARP, operation: ASKS_REVERSE, address, askedMac: bytes };
  const told = addresses.flatMap((text) => parseIp(text) ?? []);
  return [questionOf(bytes, heard), ...told.map((ip) => toldOf(bytes, ip))];
}
