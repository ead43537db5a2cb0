// SPDX-License-Identifier: Apache-2.0
// Frames that announce a guest's new location: RARP as QEMU sends it, and ARP and neighbor advertisements as a guest
// sends them.
import { IP_BITS, parseIp, type IpPrefix } from "@patchbay/api/values";
import type { AnnouncedNic } from "@patchbay/core/interfaces";
import { addressBytes } from "./netlink/rtnetlink.ts";
import { macBytes } from "./netlink/message.ts";

/** Minimum length of an Ethernet frame, in bytes, without its checksum. Source: IEEE 802.3 */
const FRAME_MIN = 60;
/** EtherTypes. Source: IEEE 802 numbers */
const [ARP, RARP, IPV6] = [0x0806, 0x8035, 0x86dd];
/** Operations of ARP and RARP. Source: RFC 826, RFC 903 */
const [ARP_REQUEST, RARP_REQUEST] = [1, 3];
const BROADCAST_MAC = Buffer.alloc(6, 0xff);
const ZERO_MAC = Buffer.alloc(6);
/** Multicast address of all nodes on the link. Source: RFC 4291 2.7.1, RFC 2464 7 */
const ALL_NODES = Buffer.from("ff020000000000000000000000000001", "hex");
const ALL_NODES_MAC = Buffer.from("333300000001", "hex");

export function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

export function buildFrame(
  to: Uint8Array,
  from: Uint8Array,
  rest: readonly Uint8Array[],
): Uint8Array {
  const frame = Buffer.concat([to, from, ...rest]);
  return Buffer.concat([frame, Buffer.alloc(Math.max(0, FRAME_MIN - frame.length))]);
}

interface ArpRequest {
  readonly type: number;
  readonly operation: number;
  readonly address: Uint8Array;
  readonly targetMac: Uint8Array;
}

function buildArpRequest(mac: Uint8Array, request: ArpRequest): Uint8Array {
  const { type, operation, address, targetMac: queriedMac } = request;
  const kinds = Buffer.from([0, 1, 8, 0, 6, 4]);
  const ends = [mac, address, queriedMac, address];
  return buildFrame(BROADCAST_MAC, mac, [u16(type), kinds, u16(operation), ...ends]);
}

/** Computes the Internet checksum of an even number of bytes. Source: RFC 1071 */
export function internetChecksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** Builds an unsolicited advertisement; receivers replace the MAC that they had stored. Source: RFC 4861 4.4 */
function buildAdvertisement(mac: Uint8Array, address: Uint8Array): Uint8Array {
  const [advertisement, overrides, macOption] = [136, 0x20, 2];
  const message = Buffer.concat([
    Buffer.from([advertisement, 0, 0, 0, overrides, 0, 0, 0]),
    address,
    Buffer.from([macOption, 1]),
    mac,
  ]);
  const icmp = 58;
  const summed = [address, ALL_NODES, Buffer.from([0, 0]), u16(message.length)];
  const sum = internetChecksum(Buffer.concat([...summed, Buffer.from([0, 0, 0, icmp]), message]));
  message.writeUInt16BE(sum, 2);
  const hops = 255;
  const head = [Buffer.from([0x60, 0, 0, 0]), u16(message.length), Buffer.from([icmp, hops])];
  return buildFrame(ALL_NODES_MAC, mac, [u16(IPV6), ...head, address, ALL_NODES, message]);
}

function buildAddressAnnouncement(mac: Uint8Array, ip: IpPrefix): Uint8Array {
  const address = addressBytes(ip);
  return ip.version === 4
    ? buildArpRequest(mac, { type: ARP, operation: ARP_REQUEST, address, targetMac: ZERO_MAC })
    : buildAdvertisement(mac, address);
}

/** Builds the frames that announce a NIC. Ignores strings that are not IP addresses. */
export function buildAnnouncements({ mac, addresses }: AnnouncedNic): readonly Uint8Array[] {
  const bytes = macBytes(mac);
  const address = Buffer.alloc(IP_BITS[4] / 8);
  const rarp = { type: RARP, operation: RARP_REQUEST, address, targetMac: bytes };
  const ips = addresses.flatMap((text) => parseIp(text) ?? []);
  return [buildArpRequest(bytes, rarp), ...ips.map((ip) => buildAddressAnnouncement(bytes, ip))];
}
