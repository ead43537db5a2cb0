// SPDX-License-Identifier: Apache-2.0
import {
  IP_BITS,
  MAC_BYTES,
  parseIp,
  parseMac,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type { NicAddresses, NicNeighbor, NicRoute } from "@patchbay/core/nics";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import {
  type Attributes,
  decodeAttributes,
  encodeAttribute,
  findNumber,
  type Message,
  findText,
} from "./message.ts";

/** Flags of requests. Source: linux/netlink.h, NLM_F_CREATE, NLM_F_EXCL and NLM_F_REPLACE */
export const [CREATE, EXCLUSIVE, REPLACE] = [0x400, 0x200, 0x100];

/** Message types. Source: linux/rtnetlink.h */
export const RTM = {
  deleteLink: 17,
  deleteAddress: 21,
  deleteNeighbour: 29,
  newLink: 16,
  getLink: 18,
  newAddress: 20,
  getAddress: 22,
  newRoute: 24,
  deleteRoute: 25,
  getRoute: 26,
  newNeighbour: 28,
  getNeighbour: 30,
  newQdisc: 36,
  deleteQdisc: 37,
  getQdisc: 38,
};
/** Size of the fixed header of each message, in bytes. Source: struct ifinfomsg, ifaddrmsg, ndmsg, rtmsg, tcmsg */
export const MESSAGE_HEADER_BYTES = { link: 16, address: 8, neighbour: 12, route: 12, qdisc: 20 };
/** Source: linux/socket.h */
export const AF_BRIDGE = 7;
export const AF_INET = 2;
export const AF_INET6 = 10;

export function readIpVersion(view: DataView): 4 | 6 {
  return view.getUint8(0) === AF_INET ? 4 : 6;
}

/** Source: linux/if_link.h */
export const IFLA = {
  address: 1,
  name: 3,
  mtu: 4,
  qdisc: 6,
  master: 10,
  info: 18,
  alias: 20,
  netnsFd: 28,
  mask: 29,
  permanentAddress: 54,
};
/** Attributes nested in IFLA_LINKINFO. */
export const LINK_INFO = { kind: 1, data: 2, portData: 5 };
/** Bridge attributes for features that delay or filter frames. A bridge is plain if the values of all these attributes are zero. */
export const BRIDGE_DELAY_ATTRIBUTES = { forwardDelay: 1, spanningTree: 5, snooping: 23 };
export const LEARNING_ATTRIBUTE = 8;
/** Attributes of a bridge port for flooding of unknown-unicast, multicast and broadcast frames. */
export const FLOODING_ATTRIBUTES: readonly number[] = [9, 27, 30];
/** Attribute of a bridge port with the 16-bit mask of forwarded groups 01:80:C2:00:00:0x. */
export const GROUP_FORWARD_MASK_ATTRIBUTE = 31;
export const MULTI_QUEUE_ATTRIBUTE = 7;
/** Source: linux/if.h */
export const LINK_FLAGS = { up: 0x1, noArp: 0x80, carrier: 0x10000 };
/** Source: linux/if_addr.h */
export const IFA = { address: 1, local: 2 };
/** Source: linux/neighbour.h */
export const NDA = { destination: 1, mac: 2, master: 9 };
export const NUD = { stale: 0x04, static: 0x40, permanent: 0x80 };

export function printMac(bytes: Uint8Array | undefined): string {
  return [...(bytes ?? [])].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

export function toView({ body }: Message): DataView {
  return new DataView(body.buffer, body.byteOffset, body.length);
}

interface DecodedLink {
  readonly link: Omit<WiredLink, "addresses" | "master">;
  readonly master: number | undefined;
}

/** Source: linux/drivers/net/tun.c */
function decodeQueues(kind: string, data: Attributes): Pick<WiredLink, "tapQueues"> {
  const multiQueue = kind === "tun" ? findNumber(data, MULTI_QUEUE_ATTRIBUTE) : undefined;
  return multiQueue === undefined ? {} : { tapQueues: multiQueue === 0 ? "one" : "many" };
}

interface LinkFields {
  readonly base: Pick<WiredLink, "name" | "index" | "kind" | "mac" | "mtu" | "up" | "carrier">;
  readonly flags: number;
  readonly attributes: Attributes;
  readonly data: Attributes;
  readonly port: Attributes;
}

export function decodeLinkFields(message: Message): LinkFields | undefined {
  if (message.type !== RTM.newLink || message.body.length < MESSAGE_HEADER_BYTES.link)
    return undefined;
  const view = toView(message);
  const flags = view.getUint32(8, true);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.link);
  const info = decodeAttributes(attributes.get(IFLA.info));
  const base = {
    name: findText(attributes, IFLA.name),
    index: view.getInt32(4, true),
    kind: findText(info, LINK_INFO.kind),
    mac: printMac(attributes.get(IFLA.address)),
    mtu: findNumber(attributes, IFLA.mtu) ?? 0,
    up: (flags & LINK_FLAGS.up) !== 0,
    carrier: (flags & LINK_FLAGS.carrier) !== 0,
  };
  const data = decodeAttributes(info.get(LINK_INFO.data));
  return { base, flags, attributes, data, port: decodeAttributes(info.get(LINK_INFO.portData)) };
}

function decodeLink(message: Message): DecodedLink | undefined {
  const fields = decodeLinkFields(message);
  if (fields === undefined) return undefined;
  const { base, flags, attributes, data, port } = fields;
  return {
    link: {
      ...base,
      ...decodeQueues(base.kind, data),
      noArp: (flags & LINK_FLAGS.noArp) !== 0,
      isPlainBridge:
        base.kind === "bridge" &&
        Object.values(BRIDGE_DELAY_ATTRIBUTES).every((type) => findNumber(data, type) === 0),
      learning: findNumber(port, LEARNING_ATTRIBUTE) !== 0,
      flooding: FLOODING_ATTRIBUTES.every((type) => findNumber(port, type) !== 0),
      passesSwitchFrames: (port.get(GROUP_FORWARD_MASK_ATTRIBUTE) ?? []).some((byte) => byte !== 0),
    },
    master: findNumber(attributes, IFLA.master),
  };
}

export function toAddressBytes({ version, value }: IpPrefix): Uint8Array {
  return Buffer.from(value.toString(16).padStart(IP_BITS[version] / 4, "0"), "hex");
}

export function printAddressBytes(version: 4 | 6, bytes: Uint8Array): string {
  return printAddress({ version, value: BigInt(`0x${Buffer.from(bytes).toString("hex")}`) });
}

interface DecodedAddress {
  readonly index: number;
  readonly text: string;
}

/** Decodes an address of a link. On point-to-point links, returns the local address instead of the peer's. */
export function decodeAddress(message: Message): DecodedAddress | undefined {
  if (message.type !== RTM.newAddress || message.body.length < MESSAGE_HEADER_BYTES.address)
    return undefined;
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.address);
  const bytes = attributes.get(IFA.local) ?? attributes.get(IFA.address);
  if (bytes === undefined) return undefined;
  const address = printAddressBytes(readIpVersion(view), bytes);
  return { index: view.getUint32(4, true), text: `${address}/${String(view.getUint8(1))}` };
}

export function decodeLinks(messages: readonly Message[]): readonly WiredLink[] {
  const decoded = messages.flatMap((message) => decodeLink(message) ?? []);
  const addressesByLink = Map.groupBy(
    messages.flatMap((message) => decodeAddress(message) ?? []),
    ({ index }) => index,
  );
  const names = new Map(decoded.map(({ link }) => [link.index, link.name]));
  return decoded
    .map(({ link, master }) => {
      const bridge = names.get(master ?? 0);
      const ownAddresses = (addressesByLink.get(link.index) ?? []).map(({ text }) => text);
      return {
        ...link,
        ...(bridge === undefined ? {} : { master: bridge }),
        addresses: ownAddresses,
      };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

const STATES: ReadonlyMap<number, string> = new Map([
  [NUD.permanent, "permanent"],
  [NUD.static, "static"],
  [NUD.stale, "stale"],
]);

function decodeEntry(
  message: Message,
  names: ReadonlyMap<number, string>,
): ForwardingEntry | undefined {
  if (message.type !== RTM.newNeighbour || message.body.length < MESSAGE_HEADER_BYTES.neighbour)
    return undefined;
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.neighbour);
  const device = names.get(view.getInt32(4, true));
  if (device === undefined || !attributes.has(NDA.master)) return undefined;
  const state = STATES.get(view.getUint16(8, true)) ?? "";
  return { mac: printMac(attributes.get(NDA.mac)), device, state };
}

/** Decodes the forwarding entries of bridges. Omits entries in the ports' own tables, which bridge(8) marks with `self`. */
export function decodeForwarding(
  messages: readonly Message[],
  links: readonly WiredLink[],
): readonly ForwardingEntry[] {
  const names = new Map(links.map(({ index, name }) => [index, name]));
  return messages.flatMap((message) => decodeEntry(message, names) ?? []);
}

interface DecodedNeighbor extends NicNeighbor {
  readonly index: number;
  readonly isPermanent: boolean;
}

export function decodeNeighbor(message: Message): DecodedNeighbor | undefined {
  if (message.type !== RTM.newNeighbour || message.body.length < MESSAGE_HEADER_BYTES.neighbour)
    return undefined;
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.neighbour);
  const [address, mac] = [attributes.get(NDA.destination), attributes.get(NDA.mac)];
  if (address === undefined || mac === undefined) return undefined;
  return {
    index: view.getInt32(4, true),
    address: printAddressBytes(readIpVersion(view), address),
    mac: printMac(mac),
    isPermanent: (view.getUint16(8, true) & NUD.permanent) !== 0,
  };
}

/** Encodes a permanent neighbor of a NIC. Source: struct ndmsg; ip-neighbour(8) */
export function encodePermanentNeighbor(
  nicIndex: number,
  { address, mac }: NicNeighbor,
): Uint8Array {
  const ip = parseIp(address);
  const macBytes = parseMac(mac);
  if (ip === undefined || macBytes === undefined) {
    const reason = `${JSON.stringify(`${address} ${mac}`)} is not a neighbor`;
    throw new AppError("PODNET_ARGUMENT_INVALID", { reason });
  }
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.neighbour);
  header[0] = ip.version === 4 ? AF_INET : AF_INET6;
  header.writeInt32LE(nicIndex, 4);
  header.writeUInt16LE(NUD.permanent, 8);
  return Buffer.concat([
    header,
    encodeAttribute(NDA.destination, toAddressBytes(ip)),
    encodeAttribute(
      NDA.mac,
      Uint8Array.from(macBytes, (byte) => parseInt(byte, 16)),
    ),
  ]);
}

export function decodePermanentNeighbors(
  messages: readonly Message[],
  nicIndex: number,
): readonly NicNeighbor[] {
  return messages
    .flatMap((message) => decodeNeighbor(message) ?? [])
    .filter(({ index, isPermanent }) => index === nicIndex && isPermanent)
    .filter(({ mac }) => parseMac(mac)?.length === MAC_BYTES)
    .map(({ address, mac }) => ({ address, mac }));
}

/** Source: linux/if_addr.h */
export const IFA_FLAGS = 8;
export const ADDRESS_FLAG_BITS = { temporary: 0x01, permanent: 0x80 };
/** Source: linux/rtnetlink.h */
export const RTA = { destination: 1, link: 4, gateway: 5, table: 15 };
export const MAIN_TABLE = 254;
/** Protocols of routes that the kernel derives from addresses and router advertisements: RTPROT_KERNEL, RTPROT_RA. */
const KERNEL_PROTOCOLS = [2, 9];
/** Flag RTM_F_CLONED of a cached route. */
export const CLONED_ROUTE_FLAG = 0x200;

/** Checks whether an address has global scope, does not expire, and is not a temporary IPv6 address (RFC 8981). */
function isConfigured(message: Message): boolean {
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.address);
  const flags = findNumber(attributes, IFA_FLAGS) ?? view.getUint8(2);
  const isTemporary = readIpVersion(view) === 6 && (flags & ADDRESS_FLAG_BITS.temporary) !== 0;
  const isGlobal = view.getUint8(3) === 0;
  return isGlobal && (flags & ADDRESS_FLAG_BITS.permanent) !== 0 && !isTemporary;
}

function decodeConfiguredAddress(message: Message, index: number): readonly string[] {
  const address = decodeAddress(message);
  return address?.index === index && isConfigured(message) ? [address.text] : [];
}

function decodeConfiguredRoute(message: Message, index: number): readonly NicRoute[] {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route) return [];
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  const table = findNumber(attributes, RTA.table) ?? view.getUint8(4);
  const isRouteOfNic = table === MAIN_TABLE && findNumber(attributes, RTA.link) === index;
  const isKernelRoute = KERNEL_PROTOCOLS.includes(view.getUint8(5));
  if (!isRouteOfNic || isKernelRoute || (view.getUint32(8, true) & CLONED_ROUTE_FLAG) !== 0)
    return [];
  const version = readIpVersion(view);
  const zeroAddress = new Uint8Array(IP_BITS[version] / 8);
  const destinationAddress = printAddressBytes(
    version,
    attributes.get(RTA.destination) ?? zeroAddress,
  );
  const gateway = attributes.get(RTA.gateway);
  const destination = `${destinationAddress}/${String(view.getUint8(1))}`;
  return [
    {
      destination,
      ...(gateway === undefined ? {} : { gateway: printAddressBytes(version, gateway) }),
    },
  ];
}

export function decodeNicAddresses(messages: readonly Message[], index: number): NicAddresses {
  return {
    addresses: messages.flatMap((message) => decodeConfiguredAddress(message, index)),
    routes: messages.flatMap((message) => decodeConfiguredRoute(message, index)),
  };
}

/** Types of routes that lead traffic somewhere or drop it: RTN_UNICAST, RTN_LOCAL, RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT. */
const DESTINATION_TYPES = [1, 2, 6, 7, 8];

interface RouteDestination {
  readonly destination: string;
  readonly index: number;
}

export function decodeDestinations(messages: readonly Message[]): readonly RouteDestination[] {
  return messages.flatMap((message): readonly RouteDestination[] => {
    if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route)
      return [];
    const view = toView(message);
    const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
    const bytes = attributes.get(RTA.destination);
    const isCloned = (view.getUint32(8, true) & CLONED_ROUTE_FLAG) !== 0;
    if (bytes === undefined || isCloned || !DESTINATION_TYPES.includes(view.getUint8(7))) return [];
    const address = printAddressBytes(readIpVersion(view), bytes);
    const destination = `${address}/${String(view.getUint8(1))}`;
    return [{ destination, index: findNumber(attributes, RTA.link) ?? 0 }];
  });
}
