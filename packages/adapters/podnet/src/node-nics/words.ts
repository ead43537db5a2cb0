// SPDX-License-Identifier: Apache-2.0
// Addresses and routes of a NIC as the kernel tells them, and as it can be told them again, of a NIC with another index.
// Source: rtnetlink(7); linux/if_addr.h; linux/rtnetlink.h
import { attributesIn, findNumber, type Message } from "../netlink/message.ts";
import { ADDRESS, CLONED, IFA_FLAGS, MAIN_TABLE, RTA } from "../netlink/nic.ts";
import { addressIn, addressText, HEAD, RTM, versionIn, viewOf } from "../netlink/rtnetlink.ts";

const HEAD_OF_ATTRIBUTE = 4;
/** Where fields of struct ifaddrmsg and of struct rtmsg are. */
const AT = { flags: 2, scope: 3, index: 4 };
const ROUTE_AT = { length: 1, table: 4, protocol: 5, type: 7, flags: 8 };
/** RT_SCOPE_LINK */
const SCOPE_LINK = 253;
/** Who made an address, where the kernel tells: IFA_PROTO, IFAPROT_KERNEL_RA. */
const [IFA_PROTO, BY_ADVERTISEMENT] = [11, 2];
/** Flags of an address that somebody can ask for: nodad, homeaddress, mngtmpaddr, noprefixroute, autojoin. */
const ASKABLE_OF_ADDRESS = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;
/** RTNH_F_ONLINK: the one flag of a route that can be asked for. */
const ASKABLE_OF_ROUTE = 0x4;
/** RTN_UNICAST: by a NIC, not a refusal. */
const UNICAST = 1;
/** RTPROT_REDIRECT, RTPROT_KERNEL, RTPROT_RA: what the kernel makes by itself. */
const MADE_BY_KERNEL = [1, 2, 9];
const RTA_MULTIPATH = 9;
/** Where fields of struct rtnexthop are, and its length. */
const NEXT_HOP = { length: 0, flags: 2, index: 4, bytes: 8 };

/** Whether it would come by itself, or go by itself: link-local and temporary addresses, and those of routers' advertisements. */
function isKernelsOwn(message: Message): boolean {
  const view = viewOf(message);
  if (versionIn(view) === 4) return false;
  const attributes = attributesIn(message.body, HEAD.address);
  const flags = findNumber(attributes, IFA_FLAGS) ?? view.getUint8(AT.flags);
  return (
    view.getUint8(AT.scope) === SCOPE_LINK ||
    (flags & ADDRESS.temporary) !== 0 ||
    findNumber(attributes, IFA_PROTO) === BY_ADVERTISEMENT
  );
}

/** Calls `change` with each attribute's type and the bytes of its value, which it may change. */
function eachAttribute(
  bytes: Buffer,
  head: number,
  change: (type: number, value: Buffer) => void,
): void {
  let from = head;
  while (from + HEAD_OF_ATTRIBUTE <= bytes.length) {
    const length = bytes.readUInt16LE(from);
    if (length < HEAD_OF_ATTRIBUTE || from + length > bytes.length) return;
    const value = bytes.subarray(from + HEAD_OF_ATTRIBUTE, from + length);
    change(bytes.readUInt16LE(from + 2), value);
    from += Math.ceil(length / 4) * 4;
  }
}

/** Calls `change` with the bytes of each next hop of a route that goes by several NICs. */
function eachNextHop(value: Buffer, change: (hop: Buffer) => void): void {
  let from = 0;
  while (from + NEXT_HOP.bytes <= value.length) {
    const length = value.readUInt16LE(from);
    if (length < NEXT_HOP.bytes || from + length > value.length) return;
    change(value.subarray(from, from + length));
    from += Math.ceil(length / 4) * 4;
  }
}

function addressWords({ body }: Message): string {
  const words = Buffer.from(body);
  words.writeUInt8(words.readUInt8(AT.flags) & ASKABLE_OF_ADDRESS, AT.flags);
  eachAttribute(words, HEAD.address, (type, value) => {
    if (type !== IFA_FLAGS) return;
    value.writeUInt32LE(value.readUInt32LE(0) & ASKABLE_OF_ADDRESS, 0);
  });
  return words.toString("base64");
}

/** Addresses of the NIC of that index, as they are given one after the other: of IPv6 the kernel lists the newest first. */
export function addressesIn(messages: readonly Message[], index: number): readonly string[] {
  const own = messages.filter(
    (message) => addressIn(message)?.index === index && !isKernelsOwn(message),
  );
  const [four, six] = [4, 6].map((version) =>
    own.filter((message) => versionIn(viewOf(message)) === version),
  );
  return [...(four ?? []), ...(six ?? []).toReversed()].map(addressWords);
}

/** Indices of the NICs that a route goes by. */
function linksOf({ body }: Message): readonly number[] {
  const indexes: number[] = [];
  eachAttribute(Buffer.from(body), HEAD.route, (type, value) => {
    if (type === RTA.link) indexes.push(value.readUInt32LE(0));
    if (type !== RTA_MULTIPATH) return;
    eachNextHop(value, (hop) => indexes.push(hop.readUInt32LE(NEXT_HOP.index)));
  });
  return indexes;
}

function isGivenRoute(message: Message): boolean {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return false;
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.route);
  const table = findNumber(attributes, RTA.table) ?? view.getUint8(ROUTE_AT.table);
  return (
    table === MAIN_TABLE &&
    view.getUint8(ROUTE_AT.type) === UNICAST &&
    !MADE_BY_KERNEL.includes(view.getUint8(ROUTE_AT.protocol)) &&
    (view.getUint32(ROUTE_AT.flags, true) & CLONED) === 0
  );
}

function routeWords({ body }: Message): string {
  const words = Buffer.from(body);
  words.writeUInt32LE(words.readUInt32LE(ROUTE_AT.flags) & ASKABLE_OF_ROUTE, ROUTE_AT.flags);
  eachAttribute(words, HEAD.route, (type, value) => {
    if (type !== RTA_MULTIPATH) return;
    eachNextHop(value, (hop) => {
      hop.writeUInt8(hop.readUInt8(NEXT_HOP.flags) & ASKABLE_OF_ROUTE, NEXT_HOP.flags);
    });
  });
  return words.toString("base64");
}

function hasGateway({ body }: Message): boolean {
  return attributesIn(body, HEAD.route).has(RTA.gateway);
}

/** Routes of the main table by the NIC of that index; those without a gateway first, on which the others may rest. */
export function routesIn(messages: readonly Message[], index: number): readonly string[] {
  const own = messages.filter(
    (message) => isGivenRoute(message) && linksOf(message).includes(index),
  );
  const [near, far] = [own.filter((one) => !hasGateway(one)), own.filter(hasGateway)];
  return [...near, ...far].map(routeWords);
}

/** The body of the message that gives an address to the NIC of index `now`. */
export function addressBody(words: string, now: number): Uint8Array {
  const body = Buffer.from(words, "base64");
  body.writeUInt32LE(now, AT.index);
  return body;
}

/** The body of the message that makes a route again, by a NIC whose index was `before` and is `now`. */
export function routeBody(words: string, before: number, now: number): Uint8Array {
  const body = Buffer.from(words, "base64");
  const renumber = (bytes: Buffer, at: number): void => {
    if (bytes.readUInt32LE(at) === before) bytes.writeUInt32LE(now, at);
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

/** The address as ADDRESS/LENGTH, for people. */
export function sayAddress(words: string): string {
  const body = Buffer.from(words, "base64");
  return addressIn({ type: RTM.newAddress, isInterrupted: false, body })?.text ?? "";
}

/** The route as `ip route` has it, for people. */
export function sayRoute(words: string): string {
  const body = Buffer.from(words, "base64");
  const version = versionIn(viewOf({ type: RTM.newRoute, isInterrupted: false, body }));
  const attributes = attributesIn(body, HEAD.route);
  const [to, gateway] = [RTA.destination, RTA.gateway].map((type) => attributes.get(type));
  const length = String(body.readUInt8(ROUTE_AT.length));
  const destination = to === undefined ? "default" : `${addressText(version, to)}/${length}`;
  return gateway === undefined
    ? destination
    : `${destination} via ${addressText(version, gateway)}`;
}
