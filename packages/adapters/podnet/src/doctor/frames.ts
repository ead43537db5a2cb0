// SPDX-License-Identifier: Apache-2.0
// Probe frames, and tests that recognize a captured frame as a probe or as its answer. Source: RFC 826, RFC 4861, RFC
// 7527, RFC 792, RFC 2131, RFC 9293
import { parseIp } from "@patchbay/api/values";
import type { FrameChecksum, FrameTest } from "@patchbay/core/interfaces";
import { computeInternetChecksum, buildFrame, u16 } from "../announcements.ts";
import { printAddressBytes, toAddressBytes } from "../netlink/rtnetlink.ts";
import { parseMac } from "../netlink/message.ts";

export interface ProbeFrame {
  readonly frame: Uint8Array;
  /** Checksum that a link must compute. Unset if the frame contains a correct checksum. */
  readonly checksum?: FrameChecksum;
  readonly probeTests: readonly FrameTest[];
  readonly answerTests: readonly FrameTest[];
}

export interface ProbeEnds {
  readonly from: string;
  readonly to: string;
  readonly id: number;
}

export const BROADCAST_MAC = "ff:ff:ff:ff:ff:ff";

/** EtherTypes. Source: IEEE 802 numbers */
const [ARP, IPV4, IPV6] = [0x0806, 0x0800, 0x86dd];
const ETHERNET_HEADER_BYTES = 14;
const IPV4_HEADER_BYTES = 20;
const [ICMP, TCP, UDP, ICMPV6] = [1, 6, 17, 58];
const TTL = 64;

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function buildFrameTests(
  size: FrameTest["size"],
  ...pairs: readonly (readonly [number, number])[]
): FrameTest[] {
  return pairs.map(([offset, value]) => ({ offset, size, value }));
}

function buildByteTests(offset: number, bytes: Buffer): readonly FrameTest[] {
  const offsets = Array.from({ length: bytes.length / 4 }, (_none, position) => position * 4);
  return buildFrameTests(
    4,
    ...offsets.map((position) => [offset + position, bytes.readUInt32BE(position)] as const),
  );
}

function buildDestinationMacTests(mac: string): readonly FrameTest[] {
  return buildByteTests(2, Buffer.from(parseMac(mac)).subarray(2));
}

/** Pads the frame to the MTU. Receivers ignore the padding. */
export function padToMtu({ frame, ...otherFields }: ProbeFrame, mtu: number): ProbeFrame {
  return {
    ...otherFields,
    frame: Buffer.concat([
      frame,
      Buffer.alloc(Math.max(0, ETHERNET_HEADER_BYTES + mtu - frame.length)),
    ]),
  };
}

function buildArpProbe({ from, to, id }: ProbeEnds, address: Buffer, sender: Buffer): ProbeFrame {
  const addressTypes = Buffer.from([0, 1, 8, 0, 6, 4]);
  const addresses = [parseMac(from), sender, Buffer.alloc(6), address];
  const fields = [u16(ARP), addressTypes, u16(1), ...addresses, u32(id)];
  const operationOffset = 20;
  return {
    frame: buildFrame(parseMac(to), parseMac(from), fields),
    probeTests: buildFrameTests(2, [12, ARP], [operationOffset, 1]).concat(
      buildFrameTests(4, [42, id]),
    ),
    answerTests: [
      ...buildFrameTests(2, [12, ARP], [operationOffset, 2]),
      ...buildByteTests(28, address),
      ...buildByteTests(38, sender),
      ...buildDestinationMacTests(from),
    ],
  };
}

const [ARP_OPERATION_AT, ARP_SENDER_MAC_AT, ARP_TARGET_AT] = [20, 22, 38];

export function buildArpRequestTests(mac: string): readonly FrameTest[] {
  const bytes = Buffer.from(parseMac(mac));
  return [
    ...buildFrameTests(2, [12, ARP], [ARP_OPERATION_AT, 1]),
    ...buildFrameTests(2, [ARP_SENDER_MAC_AT, bytes.readUInt16BE(0)]),
    ...buildFrameTests(4, [ARP_SENDER_MAC_AT + 2, bytes.readUInt32BE(2)]),
  ];
}

export function readArpTarget(frame: Uint8Array): string {
  return printAddressBytes(4, frame.subarray(ARP_TARGET_AT, ARP_TARGET_AT + 4));
}

/** Builds a solicitation without a source address, as in duplicate address detection, so that the answer is multicast. */
function buildSolicitation({ from, to, id }: ProbeEnds, address: Buffer): ProbeFrame {
  const [solicitationType, advertisementType, nonceOption] = [135, 136, 14];
  const group = Buffer.concat([
    Buffer.from("ff0200000000000000000001ff", "hex"),
    address.subarray(13),
  ]);
  const isBroadcast = to === BROADCAST_MAC;
  const destination = isBroadcast
    ? Buffer.concat([Buffer.from([0x33, 0x33]), group.subarray(12)])
    : parseMac(to);
  const message = Buffer.concat([
    Buffer.from([solicitationType, 0, 0, 0, 0, 0, 0, 0]),
    address,
    Buffer.from([nonceOption, 1]),
    u32(id),
    Buffer.alloc(2),
  ]);
  const unspecified = Buffer.alloc(16);
  const pseudoHeader = [unspecified, group, u32(message.length), u32(ICMPV6), message];
  message.writeUInt16BE(computeInternetChecksum(Buffer.concat(pseudoHeader)), 2);
  const ipHeader = [Buffer.from([0x60, 0, 0, 0]), u16(message.length), Buffer.from([ICMPV6, 255])];
  const typeOffset = ETHERNET_HEADER_BYTES + 40;
  const icmpTests = [...buildFrameTests(2, [12, IPV6]), ...buildFrameTests(1, [20, ICMPV6])];
  return {
    frame: buildFrame(destination, parseMac(from), [
      u16(IPV6),
      ...ipHeader,
      unspecified,
      group,
      message,
    ]),
    probeTests: [
      ...icmpTests,
      ...buildFrameTests(1, [typeOffset, solicitationType]),
      ...buildFrameTests(4, [typeOffset + 26, id]),
    ],
    answerTests: [
      ...icmpTests,
      ...buildFrameTests(1, [typeOffset, advertisementType]),
      ...buildByteTests(typeOffset + 8, address),
    ],
  };
}

/** Builds an ARP request or an IPv6 neighbor solicitation. `sender` is the sender IP of an ARP request; some hosts ignore 0.0.0.0. */
export function buildAddressProbe(
  ends: ProbeEnds,
  address: string,
  sender = "0.0.0.0",
): ProbeFrame {
  const [targetIp, senderIp] = [address, sender].map(parseIp);
  if (targetIp === undefined || senderIp === undefined)
    throw new Error(`${address} is not an IP address`);
  const bytes = Buffer.from(toAddressBytes(targetIp));
  return targetIp.version === 4
    ? buildArpProbe(ends, bytes, Buffer.from(toAddressBytes(senderIp)))
    : buildSolicitation(ends, bytes);
}

function buildIpv4Header(
  protocol: number,
  length: number,
  encodedAddresses: readonly Buffer[],
): Buffer {
  const header = Buffer.concat([
    Buffer.from([0x45, 0]),
    u16(IPV4_HEADER_BYTES + length),
    Buffer.from([0, 0, 0x40, 0, TTL, protocol, 0, 0]),
    ...encodedAddresses,
  ]);
  header.writeUInt16BE(computeInternetChecksum(header), 10);
  return header;
}

function buildIpv4Tests(protocol: number): readonly FrameTest[] {
  return [...buildFrameTests(2, [12, IPV4]), ...buildFrameTests(1, [14, 0x45], [23, protocol])];
}

const PING_BYTES = 56;

function parseEnds(addresses: readonly [string, string]): readonly Buffer[] {
  return addresses.map((text) => {
    const ip = parseIp(text);
    if (ip === undefined) throw new Error(`${text} is not an IP address`);
    return Buffer.from(toAddressBytes(ip));
  });
}

export function buildPing(
  { from, to, id }: ProbeEnds,
  addresses: readonly [string, string],
  bytes: number = PING_BYTES,
): ProbeFrame {
  const endAddresses = parseEnds(addresses);
  const message = Buffer.concat([Buffer.from([8, 0, 0, 0]), u32(id), Buffer.alloc(bytes - 28)]);
  message.writeUInt16BE(computeInternetChecksum(message), 2);
  const ipHeader = buildIpv4Header(ICMP, message.length, endAddresses);
  const typeOffset = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const commonTests = [...buildIpv4Tests(ICMP), ...buildFrameTests(4, [typeOffset + 4, id])];
  return {
    frame: buildFrame(parseMac(to), parseMac(from), [u16(IPV4), ipHeader, message]),
    probeTests: [...commonTests, ...buildFrameTests(1, [typeOffset, 8])],
    answerTests: [...commonTests, ...buildFrameTests(1, [typeOffset, 0])],
  };
}

/** Port of tcpmux, on which hosts normally do not listen, so that a reachable host refuses the connection. */
const UNUSED_PORT = 1;

/** Builds a TCP SYN over IPv4. A RST counts as an answer, like a SYN-ACK. */
export function buildTcpProbe(
  { from, to, id }: ProbeEnds,
  addresses: readonly [string, string],
  toPort: number = UNUSED_PORT,
): ProbeFrame {
  const endAddresses = parseEnds(addresses);
  const [headBytes, syn, windowBytes] = [20, 0x02, 1024];
  const port = 0xc000 | (id & 0x3fff);
  const segment = Buffer.concat([
    u16(port),
    u16(toPort),
    u32(id),
    u32(0),
    Buffer.from([headBytes << 2, syn]),
    u16(windowBytes),
    u32(0),
  ]);
  const pseudoHeader = [...endAddresses, Buffer.from([0, TCP]), u16(segment.length), segment];
  segment.writeUInt16BE(computeInternetChecksum(Buffer.concat(pseudoHeader)), 16);
  const ipHeader = buildIpv4Header(TCP, segment.length, endAddresses);
  const tcpOffset = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const portTests = (first: number, second: number): readonly FrameTest[] =>
    buildFrameTests(2, [tcpOffset, first], [tcpOffset + 2, second]);
  return {
    frame: buildFrame(parseMac(to), parseMac(from), [u16(IPV4), ipHeader, segment]),
    probeTests: [
      ...buildIpv4Tests(TCP),
      ...portTests(port, toPort),
      ...buildFrameTests(4, [tcpOffset + 4, id]),
    ],
    answerTests: [
      ...buildIpv4Tests(TCP),
      ...portTests(toPort, port),
      ...buildFrameTests(4, [tcpOffset + 8, (id + 1) >>> 0]),
    ],
  };
}

/** Removes the checksum of a ping, so that a link must compute it, as links do for a guest's TCP segments. Source: RFC 792 */
export function withoutChecksum({ frame, ...otherFields }: ProbeFrame): ProbeFrame {
  const icmpOffset = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const checksumOffset = icmpOffset + 2;
  const frameWithoutChecksum = Buffer.from(frame);
  frameWithoutChecksum.writeUInt16BE(0, checksumOffset);
  return {
    ...otherFields,
    frame: frameWithoutChecksum,
    checksum: { from: icmpOffset, at: checksumOffset },
  };
}

/** Builds a DHCPDISCOVER, which reserves no address. A server reserves an address only when the client accepts the offer. */
export function buildDhcpDiscover({ from, id }: Omit<ProbeEnds, "to">): ProbeFrame {
  const mac = parseMac(from);
  const broadcastFlag = 0x80;
  const options = Buffer.from("6382536335010137030103061aff", "hex");
  const bootpMessage = Buffer.concat([
    Buffer.from([1, 1, 6, 0]),
    u32(id),
    Buffer.from([0, 0, broadcastFlag, 0]),
    Buffer.alloc(16),
    mac,
    Buffer.alloc(10 + 64 + 128),
    options,
  ]);
  const [client, server] = [68, 67];
  const datagram = Buffer.concat([
    u16(client),
    u16(server),
    u16(8 + bootpMessage.length),
    u16(0),
    bootpMessage,
  ]);
  const ipHeader = buildIpv4Header(UDP, datagram.length, [Buffer.alloc(4), Buffer.alloc(4, 0xff)]);
  const [portOffset, idOffset] = [36, 46];
  return {
    frame: buildFrame(parseMac(BROADCAST_MAC), mac, [u16(IPV4), ipHeader, datagram]),
    probeTests: [
      ...buildIpv4Tests(UDP),
      ...buildFrameTests(2, [portOffset, server]),
      ...buildFrameTests(4, [idOffset, id]),
    ],
    answerTests: [
      ...buildIpv4Tests(UDP),
      ...buildFrameTests(2, [portOffset, client]),
      ...buildFrameTests(4, [idOffset, id]),
    ],
  };
}

export function isArp(frame: Uint8Array): boolean {
  return matchesFrame(frame, buildFrameTests(2, [12, ARP]));
}

export function matchesFrame(frame: Uint8Array, tests: readonly FrameTest[]): boolean {
  const bytes = Buffer.from(frame);
  return tests.every(
    ({ offset, size, value }) =>
      offset + size <= bytes.length && bytes.readUIntBE(offset, size) === value,
  );
}
