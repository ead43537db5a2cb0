// SPDX-License-Identifier: Apache-2.0
// Frames that announce the new location of a migrated guest: the RARP request that QEMU would send, and the gratuitous
// ARP requests and unsolicited neighbor advertisements that a guest would send.
import { IP_BITS, parseIp, type IpPrefix } from "@patchbay/api/values";
import type { AnnouncedNic } from "@patchbay/core/interfaces";
import { toAddressBytes } from "./netlink/rtnetlink.ts";
import { parseMac } from "./netlink/message.ts";

/** Minimum length of an Ethernet frame without its checksum, in bytes. Source: IEEE 802.3 */
const FRAME_MIN = 60;
/** EtherTypes. Source: IEEE 802 numbers */
const [ARP, RARP, IPV6] = [0x0806, 0x8035, 0x86dd];
/** Source: RFC 826, RFC 903 */
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
  parts: readonly Uint8Array[],
): Uint8Array {
  const frame = Buffer.concat([to, from, ...parts]);
  return Buffer.concat([frame, Buffer.alloc(Math.max(0, FRAME_MIN - frame.length))]);
}

interface ArpRequest {
  readonly type: number;
  readonly operation: number;
  readonly address: Uint8Array;
  readonly targetMac: Uint8Array;
}

function buildArpRequest(mac: Uint8Array, request: ArpRequest): Uint8Array {
  const { type, operation, address, targetMac: requestedMac } = request;
  const addressTypes = Buffer.from([0, 1, 8, 0, 6, 4]);
  const addresses = [mac, address, requestedMac, address];
  return buildFrame(BROADCAST_MAC, mac, [u16(type), addressTypes, u16(operation), ...addresses]);
}

/** Computes the Internet checksum. The number of bytes must be even. Source: RFC 1071 */
export function computeInternetChecksum(bytes: Buffer): number {
  let sum = 0;
  for (let offset = 0; offset < bytes.length; offset += 2) sum += bytes.readUInt16BE(offset);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** Builds an unsolicited neighbor advertisement, which replaces the MAC in neighbor caches. Source: RFC 4861 4.4 */
function buildAdvertisement(mac: Uint8Array, address: Uint8Array): Uint8Array {
  const [advertisementType, overrideFlag, macOption] = [136, 0x20, 2];
  const message = Buffer.concat([
    Buffer.from([advertisementType, 0, 0, 0, overrideFlag, 0, 0, 0]),
    address,
    Buffer.from([macOption, 1]),
    mac,
  ]);
  const icmp = 58;
  const pseudoHeader = [address, ALL_NODES, Buffer.from([0, 0]), u16(message.length)];
  const sum = computeInternetChecksum(
    Buffer.concat([...pseudoHeader, Buffer.from([0, 0, 0, icmp]), message]),
  );
  message.writeUInt16BE(sum, 2);
  const hopLimit = 255;
  const ipHeader = [
    Buffer.from([0x60, 0, 0, 0]),
    u16(message.length),
    Buffer.from([icmp, hopLimit]),
  ];
  return buildFrame(ALL_NODES_MAC, mac, [u16(IPV6), ...ipHeader, address, ALL_NODES, message]);
}

function buildAddressAnnouncement(mac: Uint8Array, ip: IpPrefix): Uint8Array {
  const address = toAddressBytes(ip);
  return ip.version === 4
    ? buildArpRequest(mac, { type: ARP, operation: ARP_REQUEST, address, targetMac: ZERO_MAC })
    : buildAdvertisement(mac, address);
}

/** Builds the frames that announce a NIC. Ignores entries of `addresses` that are not IP addresses. */
export function buildAnnouncements({ mac, addresses }: AnnouncedNic): readonly Uint8Array[] {
  const bytes = parseMac(mac);
  const address = Buffer.alloc(IP_BITS[4] / 8);
  const rarp = { type: RARP, operation: RARP_REQUEST, address, targetMac: bytes };
  const ips = addresses.flatMap((text) => parseIp(text) ?? []);
  return [buildArpRequest(bytes, rarp), ...ips.map((ip) => buildAddressAnnouncement(bytes, ip))];
}
