// SPDX-License-Identifier: Apache-2.0
// Probe frames, and tests that recognize them and their answers by the random number in each. Source: RFC 826, RFC
// 4861, RFC 7527, RFC 792, RFC 2131, RFC 9293
import { parseIp } from "@patchbay/api/values";
import type { FrameChecksum, FrameTest } from "@patchbay/core/interfaces";
import { internetChecksum, buildFrame, u16 } from "../announcements.ts";
import { addressBytes } from "../netlink/rtnetlink.ts";
import { macBytes } from "../netlink/message.ts";

export interface ProbeFrame {
  readonly frame: Uint8Array;
  /** Checksum that a link must still compute; unset if the frame already has it. */
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

function frameTests(
  size: FrameTest["size"],
  ...pairs: readonly (readonly [number, number])[]
): FrameTest[] {
  return pairs.map(([offset, value]) => ({ offset, size, value }));
}

function bytesAt(offset: number, bytes: Buffer): readonly FrameTest[] {
  const offsets = Array.from({ length: bytes.length / 4 }, (_none, at) => at * 4);
  return frameTests(4, ...offsets.map((at) => [offset + at, bytes.readUInt32BE(at)] as const));
}

function destinationMacTests(mac: string): readonly FrameTest[] {
  return bytesAt(2, Buffer.from(macBytes(mac)).subarray(2));
}

/** Pads the frame to the MTU; receivers ignore the padding. */
export function padToMtu({ frame, ...known }: ProbeFrame, mtu: number): ProbeFrame {
  return {
    ...known,
    frame: Buffer.concat([
      frame,
      Buffer.alloc(Math.max(0, ETHERNET_HEADER_BYTES + mtu - frame.length)),
    ]),
  };
}

function buildArpProbe({ from, to, id }: ProbeEnds, address: Buffer, sender: Buffer): ProbeFrame {
  const kinds = Buffer.from([0, 1, 8, 0, 6, 4]);
  const ends = [macBytes(from), sender, Buffer.alloc(6), address];
  const fields = [u16(ARP), kinds, u16(1), ...ends, u32(id)];
  const operationAt = 20;
  return {
    frame: buildFrame(macBytes(to), macBytes(from), fields),
    probeTests: frameTests(2, [12, ARP], [operationAt, 1]).concat(frameTests(4, [42, id])),
    answerTests: [
      ...frameTests(2, [12, ARP], [operationAt, 2]),
      ...bytesAt(28, address),
      ...bytesAt(38, sender),
      ...destinationMacTests(from),
    ],
  };
}

/** Builds a solicitation from the unspecified address, as in duplicate address detection, so the answer is multicast. */
function buildSolicitation({ from, to, id }: ProbeEnds, address: Buffer): ProbeFrame {
  const [solicits, advertises, nonce] = [135, 136, 14];
  const group = Buffer.concat([
    Buffer.from("ff0200000000000000000001ff", "hex"),
    address.subarray(13),
  ]);
  const isToAll = to === BROADCAST_MAC;
  const destination = isToAll
    ? Buffer.concat([Buffer.from([0x33, 0x33]), group.subarray(12)])
    : macBytes(to);
  const message = Buffer.concat([
    Buffer.from([solicits, 0, 0, 0, 0, 0, 0, 0]),
    address,
    Buffer.from([nonce, 1]),
    u32(id),
    Buffer.alloc(2),
  ]);
  const unspecified = Buffer.alloc(16);
  const summed = [unspecified, group, u32(message.length), u32(ICMPV6), message];
  message.writeUInt16BE(internetChecksum(Buffer.concat(summed)), 2);
  const head = [Buffer.from([0x60, 0, 0, 0]), u16(message.length), Buffer.from([ICMPV6, 255])];
  const type = ETHERNET_HEADER_BYTES + 40;
  const ofIcmp = [...frameTests(2, [12, IPV6]), ...frameTests(1, [20, ICMPV6])];
  return {
    frame: buildFrame(destination, macBytes(from), [
      u16(IPV6),
      ...head,
      unspecified,
      group,
      message,
    ]),
    probeTests: [...ofIcmp, ...frameTests(1, [type, solicits]), ...frameTests(4, [type + 26, id])],
    answerTests: [...ofIcmp, ...frameTests(1, [type, advertises]), ...bytesAt(type + 8, address)],
  };
}

/** Builds a probe that resolves an address. `sender` is for hosts that ignore ARP requests without one. */
export function buildAddressProbe(
  ends: ProbeEnds,
  address: string,
  sender = "0.0.0.0",
): ProbeFrame {
  const [targetIp, own] = [address, sender].map(parseIp);
  if (targetIp === undefined || own === undefined)
    throw new Error(`${address} is not an IP address`);
  const bytes = Buffer.from(addressBytes(targetIp));
  return targetIp.version === 4
    ? buildArpProbe(ends, bytes, Buffer.from(addressBytes(own)))
    : buildSolicitation(ends, bytes);
}

function ipv4Head(protocol: number, length: number, ends: readonly Buffer[]): Buffer {
  const head = Buffer.concat([
    Buffer.from([0x45, 0]),
    u16(IPV4_HEADER_BYTES + length),
    Buffer.from([0, 0, 0x40, 0, TTL, protocol, 0, 0]),
    ...ends,
  ]);
  head.writeUInt16BE(internetChecksum(head), 10);
  return head;
}

function ipv4Tests(protocol: number): readonly FrameTest[] {
  return [...frameTests(2, [12, IPV4]), ...frameTests(1, [14, 0x45], [23, protocol])];
}

const PING_BYTES = 56;

function parseEnds(addresses: readonly [string, string]): readonly Buffer[] {
  return addresses.map((text) => {
    const ip = parseIp(text);
    if (ip === undefined) throw new Error(`${text} is not an IP address`);
    return Buffer.from(addressBytes(ip));
  });
}

export function buildPing(
  { from, to, id }: ProbeEnds,
  addresses: readonly [string, string],
  bytes: number = PING_BYTES,
): ProbeFrame {
  const ends = parseEnds(addresses);
  const message = Buffer.concat([Buffer.from([8, 0, 0, 0]), u32(id), Buffer.alloc(bytes - 28)]);
  message.writeUInt16BE(internetChecksum(message), 2);
  const head = ipv4Head(ICMP, message.length, ends);
  const type = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const known = [...ipv4Tests(ICMP), ...frameTests(4, [type + 4, id])];
  return {
    frame: buildFrame(macBytes(to), macBytes(from), [u16(IPV4), head, message]),
    probeTests: [...known, ...frameTests(1, [type, 8])],
    answerTests: [...known, ...frameTests(1, [type, 0])],
  };
}

/** Port without a listener (tcpmux), so that a host without a firewall refuses the connection. */
const UNUSED_PORT = 1;

/** Builds a TCP SYN over IPv4; a refusal also counts as an answer. */
export function buildTcpProbe(
  { from, to, id }: ProbeEnds,
  addresses: readonly [string, string],
): ProbeFrame {
  const ends = parseEnds(addresses);
  const [headBytes, syn, windowBytes] = [20, 0x02, 1024];
  const port = 0xc000 | (id & 0x3fff);
  const segment = Buffer.concat([
    u16(port),
    u16(UNUSED_PORT),
    u32(id),
    u32(0),
    Buffer.from([headBytes << 2, syn]),
    u16(windowBytes),
    u32(0),
  ]);
  const summed = [...ends, Buffer.from([0, TCP]), u16(segment.length), segment];
  segment.writeUInt16BE(internetChecksum(Buffer.concat(summed)), 16);
  const head = ipv4Head(TCP, segment.length, ends);
  const at = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const portTests = (first: number, second: number): readonly FrameTest[] =>
    frameTests(2, [at, first], [at + 2, second]);
  return {
    frame: buildFrame(macBytes(to), macBytes(from), [u16(IPV4), head, segment]),
    probeTests: [
      ...ipv4Tests(TCP),
      ...portTests(port, UNUSED_PORT),
      ...frameTests(4, [at + 4, id]),
    ],
    answerTests: [
      ...ipv4Tests(TCP),
      ...portTests(UNUSED_PORT, port),
      ...frameTests(4, [at + 8, (id + 1) >>> 0]),
    ],
  };
}

/** Leaves the checksum of a ping to the link, as guests do with TCP. Source: RFC 792 */
export function withoutChecksum({ frame, ...known }: ProbeFrame): ProbeFrame {
  const from = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES;
  const at = from + 2;
  const unsummed = Buffer.from(frame);
  unsummed.writeUInt16BE(0, at);
  return { ...known, frame: unsummed, checksum: { from, at } };
}

/** Builds a DHCPDISCOVER; an offer that is not accepted reserves nothing. */
export function buildDhcpDiscover({ from, id }: Omit<ProbeEnds, "to">): ProbeFrame {
  const mac = macBytes(from);
  const isBroadcast = 0x80;
  const options = Buffer.from("6382536335010137030103061aff", "hex");
  const boot = Buffer.concat([
    Buffer.from([1, 1, 6, 0]),
    u32(id),
    Buffer.from([0, 0, isBroadcast, 0]),
    Buffer.alloc(16),
    mac,
    Buffer.alloc(10 + 64 + 128),
    options,
  ]);
  const [client, server] = [68, 67];
  const datagram = Buffer.concat([u16(client), u16(server), u16(8 + boot.length), u16(0), boot]);
  const head = ipv4Head(UDP, datagram.length, [Buffer.alloc(4), Buffer.alloc(4, 0xff)]);
  const [portAt, idAt] = [36, 46];
  return {
    frame: buildFrame(macBytes(BROADCAST_MAC), mac, [u16(IPV4), head, datagram]),
    probeTests: [
      ...ipv4Tests(UDP),
      ...frameTests(2, [portAt, server]),
      ...frameTests(4, [idAt, id]),
    ],
    answerTests: [
      ...ipv4Tests(UDP),
      ...frameTests(2, [portAt, client]),
      ...frameTests(4, [idAt, id]),
    ],
  };
}

export function isArp(frame: Uint8Array): boolean {
  return matchesFrame(frame, frameTests(2, [12, ARP]));
}

export function matchesFrame(frame: Uint8Array, all: readonly FrameTest[]): boolean {
  const bytes = Buffer.from(frame);
  return all.every(
    ({ offset, size, value }) =>
      offset + size <= bytes.length && bytes.readUIntBE(offset, size) === value,
  );
}
