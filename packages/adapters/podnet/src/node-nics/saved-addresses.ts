// SPDX-License-Identifier: Apache-2.0
// Addresses and routes of a NIC, saved as netlink messages so that they can be restored to a NIC with another index.
// Source: rtnetlink(7); linux/if_addr.h; linux/rtnetlink.h
import { copySettable, SETTABLE_ROUTE_FLAGS } from "../netlink/default-routes.ts";
import { decodeAttributes, findNumber, type Message } from "../netlink/message.ts";
import {
  ADDRESS_FLAG_BITS,
  addressText,
  CLONED,
  decodeAddress,
  HEAD,
  IFA_FLAGS,
  readIpVersion,
  MAIN_TABLE,
  RTA,
  RTM,
  toView,
} from "../netlink/rtnetlink.ts";

const ATTRIBUTE_HEADER_BYTES = 4;
/** Offsets in struct ifaddrmsg and struct rtmsg. */
const ADDRESS_OFFSETS = { flags: 2, scope: 3, index: 4 };
const ROUTE_OFFSETS = { length: 1, table: 4, protocol: 5, type: 7, flags: 8 };
const SCOPE_LINK = 253;
/** Attribute with the origin of an address, IFA_PROTO, and its value IFAPROT_KERNEL_RA. */
const [IFA_PROTO, BY_ADVERTISEMENT] = [11, 2];
/** Flags of an address that requests may set: nodad, homeaddress, mngtmpaddr, noprefixroute, autojoin. */
const SETTABLE_ADDRESS_FLAGS = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;
/** RTN_UNICAST: a route through a NIC. */
const UNICAST = 1;
/** RTPROT_REDIRECT, RTPROT_KERNEL, RTPROT_RA: routes that the kernel adds by itself. */
const KERNEL_PROTOCOLS = [1, 2, 9];
const RTA_MULTIPATH = 9;
/** Offsets in struct rtnexthop, and its length. */
const NEXT_HOP = { length: 0, flags: 2, index: 4, bytes: 8 };

/** Checks whether the kernel manages an address: link-local, temporary, or from a router advertisement. */
function isKernelManaged(message: Message): boolean {
  const view = toView(message);
  if (readIpVersion(view) === 4) return false;
  const attributes = decodeAttributes(message.body, HEAD.address);
  const flags = findNumber(attributes, IFA_FLAGS) ?? view.getUint8(ADDRESS_OFFSETS.flags);
  return (
    view.getUint8(ADDRESS_OFFSETS.scope) === SCOPE_LINK ||
    (flags & ADDRESS_FLAG_BITS.temporary) !== 0 ||
    findNumber(attributes, IFA_PROTO) === BY_ADVERTISEMENT
  );
}

function eachAttribute(
  bytes: Buffer,
  head: number,
  change: (type: number, value: Buffer) => void,
): void {
  let from = head;
  while (from + ATTRIBUTE_HEADER_BYTES <= bytes.length) {
    const length = bytes.readUInt16LE(from);
    if (length < ATTRIBUTE_HEADER_BYTES || from + length > bytes.length) return;
    const value = bytes.subarray(from + ATTRIBUTE_HEADER_BYTES, from + length);
    change(bytes.readUInt16LE(from + 2), value);
    from += Math.ceil(length / 4) * 4;
  }
}

function eachNextHop(value: Buffer, change: (hop: Buffer) => void): void {
  let from = 0;
  while (from + NEXT_HOP.bytes <= value.length) {
    const length = value.readUInt16LE(from);
    if (length < NEXT_HOP.bytes || from + length > value.length) return;
    change(value.subarray(from, from + length));
    from += Math.ceil(length / 4) * 4;
  }
}

function encodeAddress({ body }: Message): string {
  const request = Buffer.from(body);
  request.writeUInt8(
    request.readUInt8(ADDRESS_OFFSETS.flags) & SETTABLE_ADDRESS_FLAGS,
    ADDRESS_OFFSETS.flags,
  );
  eachAttribute(request, HEAD.address, (type, value) => {
    if (type !== IFA_FLAGS) return;
    value.writeUInt32LE(value.readUInt32LE(0) & SETTABLE_ADDRESS_FLAGS, 0);
  });
  return request.toString("base64");
}

/** Saves the addresses of a NIC in the order in which to restore them. The kernel lists IPv6 addresses newest first. */
export function saveAddresses(messages: readonly Message[], index: number): readonly string[] {
  const own = messages.filter(
    (message) => decodeAddress(message)?.index === index && !isKernelManaged(message),
  );
  const [four, six] = [4, 6].map((version) =>
    own.filter((message) => readIpVersion(toView(message)) === version),
  );
  return [...(four ?? []), ...(six ?? []).toReversed()].map(encodeAddress);
}

function listLinkIndices({ body }: Message): readonly number[] {
  const indexes: number[] = [];
  eachAttribute(Buffer.from(body), HEAD.route, (type, value) => {
    if (type === RTA.link) indexes.push(value.readUInt32LE(0));
    if (type !== RTA_MULTIPATH) return;
    eachNextHop(value, (hop) => indexes.push(hop.readUInt32LE(NEXT_HOP.index)));
  });
  return indexes;
}

function isConfiguredRoute(message: Message): boolean {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return false;
  const view = toView(message);
  const attributes = decodeAttributes(message.body, HEAD.route);
  const table = findNumber(attributes, RTA.table) ?? view.getUint8(ROUTE_OFFSETS.table);
  return (
    table === MAIN_TABLE &&
    view.getUint8(ROUTE_OFFSETS.type) === UNICAST &&
    !KERNEL_PROTOCOLS.includes(view.getUint8(ROUTE_OFFSETS.protocol)) &&
    (view.getUint32(ROUTE_OFFSETS.flags, true) & CLONED) === 0
  );
}

function encodeRoute(message: Message): string {
  const request = copySettable(message);
  eachAttribute(request, HEAD.route, (type, value) => {
    if (type !== RTA_MULTIPATH) return;
    eachNextHop(value, (hop) => {
      hop.writeUInt8(hop.readUInt8(NEXT_HOP.flags) & SETTABLE_ROUTE_FLAGS, NEXT_HOP.flags);
    });
  });
  return request.toString("base64");
}

function hasGateway({ body }: Message): boolean {
  return decodeAttributes(body, HEAD.route).has(RTA.gateway);
}

/** Saves the main table's routes through a NIC. Those without a gateway come first, because the others may depend on them. */
export function saveRoutes(messages: readonly Message[], index: number): readonly string[] {
  const own = messages.filter(
    (message) => isConfiguredRoute(message) && listLinkIndices(message).includes(index),
  );
  const [direct, routed] = [own.filter((one) => !hasGateway(one)), own.filter(hasGateway)];
  return [...direct, ...routed].map(encodeRoute);
}

export function restoreAddressBody(saved: string, index: number): Uint8Array {
  const body = Buffer.from(saved, "base64");
  body.writeUInt32LE(index, ADDRESS_OFFSETS.index);
  return body;
}

export function restoreRouteBody(saved: string, previousIndex: number, index: number): Uint8Array {
  const body = Buffer.from(saved, "base64");
  const renumber = (bytes: Buffer, at: number): void => {
    if (bytes.readUInt32LE(at) === previousIndex) bytes.writeUInt32LE(index, at);
  };
  eachAttribute(body, HEAD.route, (type, value) => {
    if (type === RTA.link) renumber(value, 0);
    if (type !== RTA_MULTIPATH) return;
    eachNextHop(value, (hop) => {
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
  const attributes = decodeAttributes(body, HEAD.route);
  const [to, gateway] = [RTA.destination, RTA.gateway].map((type) => attributes.get(type));
  const length = String(body.readUInt8(ROUTE_OFFSETS.length));
  const destination = to === undefined ? "default" : `${addressText(version, to)}/${length}`;
  return gateway === undefined
    ? destination
    : `${destination} via ${addressText(version, gateway)}`;
}
