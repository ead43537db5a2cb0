// SPDX-License-Identifier: Apache-2.0
// Frames that ask, and by which numbers they and what answers them are known again. Each has a number of its own that nobody
// else's has. Source: RFC 826, RFC 4861, RFC 7527, RFC 792, RFC 2131, RFC 9293.
import { parseIp } from "@patchbay/api";
import type { FrameChecksum, FrameTest } from "@patchbay/core/ports";
import { checksumOf, frameOf, u16 } from "../announcements.ts";
import { addressBytes } from "../netlink/change-messages.ts";
import { macBytes } from "../netlink/write.ts";

/** A frame that asks, and how frames are known that are it, or that answer it. */
export interface Question {
  readonly frame: Uint8Array;
  /** Bytes of the frame that are summed by a link on its way, and where the sum goes; absent: it has its sum. */
  readonly checksum?: FrameChecksum;
  readonly asked: readonly FrameTest[];
  readonly answered: readonly FrameTest[];
}

/** Ends of a question; MACs with colons. */
export interface Ends {
  readonly from: string;
  readonly to: string;
  /** 32 bits of this question. */
  readonly id: number;
}

/** To all of a link. */
export const TO_ALL = "ff:ff:ff:ff:ff:ff";

/** Source: IEEE 802 numbers, EtherType. */
const [ARP, IPV4, IPV6] = [0x0806, 0x0800, 0x86dd];
const ETHERNET = 14;
const IPV4_HEAD = 20;
const [ICMP, TCP, UDP, ICMPV6] = [1, 6, 17, 58];
const TTL = 64;

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function tests(
  size: FrameTest["size"],
  ...pairs: readonly (readonly [number, number])[]
): FrameTest[] {
  return pairs.map(([offset, value]) => ({ offset, size, value }));
}

/** Four bytes at a time. */
function bytesAt(offset: number, bytes: Buffer): readonly FrameTest[] {
  const words = Array.from({ length: bytes.length / 4 }, (_none, at) => at * 4);
  return tests(4, ...words.map((at) => [offset + at, bytes.readUInt32BE(at)] as const));
}

/** The last four bytes of the MAC that a frame is for. */
function toMac(mac: string): readonly FrameTest[] {
  return bytesAt(2, Buffer.from(macBytes(mac)).subarray(2));
}

/** The same frame, as large as a link of that MTU lets through: what is behind its end, receivers leave aside. */
export function enlarged({ frame, ...known }: Question, mtu: number): Question {
  return {
    ...known,
    frame: Buffer.concat([frame, Buffer.alloc(Math.max(0, ETHERNET + mtu - frame.length))]),
  };
}

function arpQuestion({ from, to, id }: Ends, address: Buffer, sender: Buffer): Question {
  const kinds = Buffer.from([0, 1, 8, 0, 6, 4]);
  const ends = [macBytes(from), sender, Buffer.alloc(6), address];
  const words = [u16(ARP), kinds, u16(1), ...ends, u32(id)];
  const operationAt = 20;
  return {
    frame: frameOf(macBytes(to), macBytes(from), words),
    asked: tests(2, [12, ARP], [operationAt, 1]).concat(tests(4, [42, id])),
    answered: [
      ...tests(2, [12, ARP], [operationAt, 2]),
      ...bytesAt(28, address),
      ...bytesAt(38, sender),
      ...toMac(from),
    ],
  };
}

/** From nobody, as who looks whether an address is taken; so the answer is to all. */
function solicitation({ from, to, id }: Ends, address: Buffer): Question {
  const [solicits, advertises, nonce] = [135, 136, 14];
  const group = Buffer.concat([
    Buffer.from("ff0200000000000000000001ff", "hex"),
    address.subarray(13),
  ]);
  const isToAll = to === TO_ALL;
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
  const nobody = Buffer.alloc(16);
  const summed = [nobody, group, u32(message.length), u32(ICMPV6), message];
  message.writeUInt16BE(checksumOf(Buffer.concat(summed)), 2);
  const head = [Buffer.from([0x60, 0, 0, 0]), u16(message.length), Buffer.from([ICMPV6, 255])];
  const type = ETHERNET + 40;
  const ofIcmp = [...tests(2, [12, IPV6]), ...tests(1, [20, ICMPV6])];
  return {
    frame: frameOf(destination, macBytes(from), [u16(IPV6), ...head, nobody, group, message]),
    asked: [...ofIcmp, ...tests(1, [type, solicits]), ...tests(4, [type + 26, id])],
    answered: [...ofIcmp, ...tests(1, [type, advertises]), ...bytesAt(type + 8, address)],
  };
}

/** Who has the address? `sender`: of IPv4, for those who answer nobody without one; absent: nobody's. */
export function whoHas(ends: Ends, address: string, sender = "0.0.0.0"): Question {
  const [asked, own] = [address, sender].map(parseIp);
  if (asked === undefined || own === undefined) throw new Error(`${address} is not an IP address`);
  const bytes = Buffer.from(addressBytes(asked));
  return asked.version === 4
    ? arpQuestion(ends, bytes, Buffer.from(addressBytes(own)))
    : solicitation(ends, bytes);
}

function ipv4Head(protocol: number, length: number, ends: readonly Buffer[]): Buffer {
  const head = Buffer.concat([
    Buffer.from([0x45, 0]),
    u16(IPV4_HEAD + length),
    // Not to be taken apart.
    Buffer.from([0, 0, 0x40, 0, TTL, protocol, 0, 0]),
    ...ends,
  ]);
  head.writeUInt16BE(checksumOf(head), 10);
  return head;
}

function ofIpv4(protocol: number): readonly FrameTest[] {
  return [...tests(2, [12, IPV4]), ...tests(1, [14, 0x45], [23, protocol])];
}

/** Bytes of a ping, with all of its heads but that of Ethernet. */
const PING_BYTES = 56;

function endsOf(addresses: readonly [string, string]): readonly Buffer[] {
  return addresses.map((text) => {
    const ip = parseIp(text);
    if (ip === undefined) throw new Error(`${text} is not an IP address`);
    return Buffer.from(addressBytes(ip));
  });
}

/** A ping by IPv4, of so many bytes. */
export function ping(
  { from, to, id }: Ends,
  addresses: readonly [string, string],
  bytes: number = PING_BYTES,
): Question {
  const ends = endsOf(addresses);
  const message = Buffer.concat([Buffer.from([8, 0, 0, 0]), u32(id), Buffer.alloc(bytes - 28)]);
  message.writeUInt16BE(checksumOf(message), 2);
  const head = ipv4Head(ICMP, message.length, ends);
  const type = ETHERNET + IPV4_HEAD;
  const known = [...ofIpv4(ICMP), ...tests(4, [type + 4, id])];
  return {
    frame: frameOf(macBytes(to), macBytes(from), [u16(IPV4), head, message]),
    asked: [...known, ...tests(1, [type, 8])],
    answered: [...known, ...tests(1, [type, 0])],
  };
}

/** Port at which nothing listens (tcpmux), so that a host without a firewall refuses the connection. */
const UNUSED_PORT = 1;

/** A request to open a TCP connection by IPv4; a refusal answers it too. */
export function connection({ from, to, id }: Ends, addresses: readonly [string, string]): Question {
  const ends = endsOf(addresses);
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
  segment.writeUInt16BE(checksumOf(Buffer.concat(summed)), 16);
  const head = ipv4Head(TCP, segment.length, ends);
  const at = ETHERNET + IPV4_HEAD;
  const portsOf = (first: number, second: number): readonly FrameTest[] =>
    tests(2, [at, first], [at + 2, second]);
  return {
    frame: frameOf(macBytes(to), macBytes(from), [u16(IPV4), head, segment]),
    asked: [...ofIpv4(TCP), ...portsOf(port, UNUSED_PORT), ...tests(4, [at + 4, id])],
    answered: [
      ...ofIpv4(TCP),
      ...portsOf(UNUSED_PORT, port),
      ...tests(4, [at + 8, (id + 1) >>> 0]),
    ],
  };
}

/** The same ping, whose checksum is left to whichever link can make it, as a guest's TCP is. Source: RFC 792 */
export function partial({ frame, ...known }: Question): Question {
  const from = ETHERNET + IPV4_HEAD;
  const at = from + 2;
  const unsummed = Buffer.from(frame);
  unsummed.writeUInt16BE(0, at);
  return { ...known, frame: unsummed, checksum: { from, at } };
}

/** Which addresses are offered? An offer that nobody takes binds nobody. */
export function dhcpDiscover({ from, id }: Omit<Ends, "to">): Question {
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
  // Check sums of UDP may be left out.
  const datagram = Buffer.concat([u16(client), u16(server), u16(8 + boot.length), u16(0), boot]);
  const head = ipv4Head(UDP, datagram.length, [Buffer.alloc(4), Buffer.alloc(4, 0xff)]);
  const [portAt, idAt] = [36, 46];
  return {
    frame: frameOf(macBytes(TO_ALL), mac, [u16(IPV4), head, datagram]),
    asked: [...ofIpv4(UDP), ...tests(2, [portAt, server]), ...tests(4, [idAt, id])],
    answered: [...ofIpv4(UDP), ...tests(2, [portAt, client]), ...tests(4, [idAt, id])],
  };
}

/** Whether a frame is of ARP. */
export function isArp(frame: Uint8Array): boolean {
  return passes(frame, tests(2, [12, ARP]));
}

/** Whether a frame passes all of them. */
export function passes(frame: Uint8Array, all: readonly FrameTest[]): boolean {
  const bytes = Buffer.from(frame);
  return all.every(
    ({ offset, size, value }) =>
      offset + size <= bytes.length && bytes.readUIntBE(offset, size) === value,
  );
}
