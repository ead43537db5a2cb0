// SPDX-License-Identifier: Apache-2.0
// Saves addresses and routes of a NIC as netlink messages, and restores them to a NIC with another index. Source:
// rtnetlink(7); linux/if_addr.h; linux/rtnetlink.h
import { copySettableRoute, SETTABLE_ROUTE_FLAGS } from "../netlink/default-routes.ts";
import { decodeAttributes, findNumber, type Message } from "../netlink/message.ts";
import {
  ADDRESS_FLAG_BITS,
  printAddressBytes,
  CLONED_ROUTE_FLAG,
  decodeAddress,
  MESSAGE_HEADER_BYTES,
  IFA_FLAGS,
  readIpVersion,
  MAIN_TABLE,
  RTA,
  RTM,
  toView,
} from "../netlink/rtnetlink.ts";

const ATTRIBUTE_HEADER_BYTES = 4;
/** Offsets of fields in struct ifaddrmsg and struct rtmsg, in bytes. */
const ADDRESS_OFFSETS = { flags: 2, scope: 3, index: 4 };
const ROUTE_OFFSETS = { length: 1, table: 4, protocol: 5, type: 7, flags: 8 };
const SCOPE_LINK = 253;
/** Attribute IFA_PROTO with the origin of an address, and its value IFAPROT_KERNEL_RA. */
const [IFA_PROTO, BY_ADVERTISEMENT] = [11, 2];
/** Address flags that a request may set: nodad, homeaddress, mngtmpaddr, noprefixroute, autojoin. */
const SETTABLE_ADDRESS_FLAGS = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;
/** Value of RTN_UNICAST, the type of routes through a NIC. */
const UNICAST = 1;
/** Protocols of routes that the kernel adds: RTPROT_REDIRECT, RTPROT_KERNEL, RTPROT_RA. */
const KERNEL_PROTOCOLS = [1, 2, 9];
const RTA_MULTIPATH = 9;
/** Offsets of fields in struct rtnexthop, and size of the struct, in bytes. */
const NEXT_HOP = { length: 0, flags: 2, index: 4, bytes: 8 };

/** Checks whether the kernel manages an address: link-local, temporary, or from a router advertisement. */
function isKernelManaged(message: Message): boolean {
  const view = toView(message);
  if (readIpVersion(view) === 4) return false;
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.address);
  const flags = findNumber(attributes, IFA_FLAGS) ?? view.getUint8(ADDRESS_OFFSETS.flags);
  return (
    view.getUint8(ADDRESS_OFFSETS.scope) === SCOPE_LINK ||
    (flags & ADDRESS_FLAG_BITS.temporary) !== 0 ||
    findNumber(attributes, IFA_PROTO) === BY_ADVERTISEMENT
  );
}

function forEachAttribute(
  bytes: Buffer,
  headerBytes: number,
  visit: (type: number, value: Buffer) => void,
): void {
  let start = headerBytes;
  while (start + ATTRIBUTE_HEADER_BYTES <= bytes.length) {
    const length = bytes.readUInt16LE(start);
    if (length < ATTRIBUTE_HEADER_BYTES || start + length > bytes.length) return;
    const value = bytes.subarray(start + ATTRIBUTE_HEADER_BYTES, start + length);
    visit(bytes.readUInt16LE(start + 2), value);
    start += Math.ceil(length / 4) * 4;
  }
}

function forEachNextHop(value: Buffer, visit: (hop: Buffer) => void): void {
  let start = 0;
  while (start + NEXT_HOP.bytes <= value.length) {
    const length = value.readUInt16LE(start);
    if (length < NEXT_HOP.bytes || start + length > value.length) return;
    visit(value.subarray(start, start + length));
    start += Math.ceil(length / 4) * 4;
  }
}

function encodeAddress({ body }: Message): string {
  const request = Buffer.from(body);
  request.writeUInt8(
    request.readUInt8(ADDRESS_OFFSETS.flags) & SETTABLE_ADDRESS_FLAGS,
    ADDRESS_OFFSETS.flags,
  );
  forEachAttribute(request, MESSAGE_HEADER_BYTES.address, (type, value) => {
    if (type !== IFA_FLAGS) return;
    value.writeUInt32LE(value.readUInt32LE(0) & SETTABLE_ADDRESS_FLAGS, 0);
  });
  return request.toString("base64");
}

/** Saves a NIC's addresses in the order in which they are restored. Reverses IPv6 addresses, because the kernel lists the newest first. */
export function saveAddresses(messages: readonly Message[], index: number): readonly string[] {
  const nicMessages = messages.filter(
    (message) => decodeAddress(message)?.index === index && !isKernelManaged(message),
  );
  const [ipv4Messages, ipv6Messages] = [4, 6].map((version) =>
    nicMessages.filter((message) => readIpVersion(toView(message)) === version),
  );
  return [...(ipv4Messages ?? []), ...(ipv6Messages ?? []).toReversed()].map(encodeAddress);
}

function listLinkIndices({ body }: Message): readonly number[] {
  const indexes: number[] = [];
  forEachAttribute(Buffer.from(body), MESSAGE_HEADER_BYTES.route, (type, value) => {
    if (type === RTA.link) indexes.push(value.readUInt32LE(0));
    if (type !== RTA_MULTIPATH) return;
    forEachNextHop(value, (hop) => indexes.push(hop.readUInt32LE(NEXT_HOP.index)));
  });
  return indexes;
}

function isConfiguredRoute(message: Message): boolean {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route)
    return false;
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  const table = findNumber(attributes, RTA.table) ?? view.getUint8(ROUTE_OFFSETS.table);
  return (
    table === MAIN_TABLE &&
    view.getUint8(ROUTE_OFFSETS.type) === UNICAST &&
    !KERNEL_PROTOCOLS.includes(view.getUint8(ROUTE_OFFSETS.protocol)) &&
    (view.getUint32(ROUTE_OFFSETS.flags, true) & CLONED_ROUTE_FLAG) === 0
  );
}

function encodeRoute(message: Message): string {
  const request = copySettableRoute(message);
  forEachAttribute(request, MESSAGE_HEADER_BYTES.route, (type, value) => {
    if (type !== RTA_MULTIPATH) return;
    forEachNextHop(value, (hop) => {
      hop.writeUInt8(hop.readUInt8(NEXT_HOP.flags) & SETTABLE_ROUTE_FLAGS, NEXT_HOP.flags);
    });
  });
  return request.toString("base64");
}

function hasGateway({ body }: Message): boolean {
  return decodeAttributes(body, MESSAGE_HEADER_BYTES.route).has(RTA.gateway);
}

/** Saves the routes of the main table that use a NIC. Routes without a gateway come first, because they must be restored first. */
export function saveRoutes(messages: readonly Message[], index: number): readonly string[] {
  const nicRoutes = messages.filter(
    (message) => isConfiguredRoute(message) && listLinkIndices(message).includes(index),
  );
  const [direct, routed] = [
    nicRoutes.filter((route) => !hasGateway(route)),
    nicRoutes.filter(hasGateway),
  ];
  return [...direct, ...routed].map(encodeRoute);
}

export function restoreAddressBody(saved: string, index: number): Uint8Array {
  const body = Buffer.from(saved, "base64");
  body.writeUInt32LE(index, ADDRESS_OFFSETS.index);
  return body;
}

export function restoreRouteBody(saved: string, previousIndex: number, index: number): Uint8Array {
  const body = Buffer.from(saved, "base64");
  const renumber = (bytes: Buffer, offset: number): void => {
    if (bytes.readUInt32LE(offset) === previousIndex) bytes.writeUInt32LE(index, offset);
  };
  forEachAttribute(body, MESSAGE_HEADER_BYTES.route, (type, value) => {
    if (type === RTA.link) renumber(value, 0);
    if (type !== RTA_MULTIPATH) return;
    forEachNextHop(value, (hop) => {
      renumber(hop, NEXT_HOP.index);
    });
  });
  return body;
}

export function printAddress(saved: string): string {
  const body = Buffer.from(saved, "base64");
  return decodeAddress({ type: RTM.newAddress, isInterrupted: false, body })?.text ?? "";
}

export function printRoute(saved: string): string {
  const body = Buffer.from(saved, "base64");
  const version = readIpVersion(toView({ type: RTM.newRoute, isInterrupted: false, body }));
  const attributes = decodeAttributes(body, MESSAGE_HEADER_BYTES.route);
  const [destinationBytes, gateway] = [RTA.destination, RTA.gateway].map((type) =>
    attributes.get(type),
  );
  const length = String(body.readUInt8(ROUTE_OFFSETS.length));
  const destination =
    destinationBytes === undefined
      ? "default"
      : `${printAddressBytes(version, destinationBytes)}/${length}`;
  return gateway === undefined
    ? destination
    : `${destination} via ${printAddressBytes(version, gateway)}`;
}
