// SPDX-License-Identifier: Apache-2.0
// Frames built byte by byte, and a guest that sends them past its own kernel.
import { parseIp } from "@patchbay/api/values";
import { run } from "@patchbay/support";

type Hex = string;

/** A number in network byte order. */
export function number(value: number | bigint, bytes: number): Hex {
  return value.toString(16).padStart(bytes * 2, "0");
}

function mac(text: string): Hex {
  return text.replaceAll(":", "");
}

/** An address in network byte order. */
export function address(text: string): Hex {
  const ip = parseIp(text);
  if (ip === undefined) throw new Error(`${text} is no address`);
  return number(ip.value, ip.version === 4 ? 4 : 16);
}

/** An Ethernet frame, padded to the minimum length. */
export function frame(to: string, from: string, rest: Hex): Hex {
  return `${mac(to)}${mac(from)}${rest}`.padEnd(120, "0");
}

/** Sender and target of an ARP message. */
export interface Arp {
  readonly op: 1 | 2;
  readonly mac: string;
  readonly ip: string;
  readonly asks: string;
}

export function arp({ op, mac: sender, ip, asks }: Arp): Hex {
  return `0806000108000604${number(op, 2)}${mac(sender)}${address(ip)}${"00".repeat(6)}${address(asks)}`;
}

export function udp(from: string, to: string, ports: readonly [number, number]): Hex {
  const length = 8 + 16;
  const content = `${number(ports[0], 2)}${number(ports[1], 2)}${number(length, 2)}0000${"00".repeat(16)}`;
  return from.includes(":") ? ipv6(from, to, { next: 17, content }) : ipv4(from, to, { content });
}

/** With br_netfilter a bridge drops IPv4 packets with a wrong checksum. Source: RFC 1071 */
function checksum(header: Hex): Hex {
  const words = header.match(/.{4}/g) ?? [];
  const sum = words.reduce((total, word) => total + Number.parseInt(word, 16), 0);
  const folded = (sum & 0xffff) + (sum >> 16);
  return number(0xffff - ((folded & 0xffff) + (folded >> 16)), 2);
}

/** Unusual IPv4 header fields; `fragment` has flags and offset. */
interface Ipv4 {
  readonly protocol?: number;
  readonly fragment?: number;
}

export function ipv4(
  from: string,
  to: string,
  { content, protocol = 17, fragment = 0 }: Ipv4 & { readonly content: Hex },
): Hex {
  const length = 20 + content.length / 2;
  const head = `4500${number(length, 2)}0000${number(fragment, 2)}40${number(protocol, 1)}`;
  const [before, after] = [head, address(from) + address(to)];
  return `0800${before}${checksum(`${before}0000${after}`)}${after}${content}`;
}

export function ipv6(
  from: string,
  to: string,
  { next, content }: { next: number; content: Hex },
): Hex {
  const length = content.length / 2;
  return `86dd60000000${number(length, 2)}${number(next, 1)}ff${address(from)}${address(to)}${content}`;
}

export const ND = {
  advertisesRouter: 134,
  solicitsRouter: 133,
  solicits: 135,
  advertises: 136,
  redirects: 137,
} as const;

/** A neighbor discovery message about an address, with options. */
export function ndWord(kind: number, about: string, options: Hex = ""): Hex {
  return `${number(kind, 1)}00000060000000${address(about)}${options}`;
}

/** An option with a MAC: 1 the sender's, 2 the target's. Source: RFC 4861, 4.6.1 */
export function linkLayer(type: 1 | 2, of: string): Hex {
  return `${number(type, 1)}01${mac(of)}`;
}

export function nd(from: string, kind: number, about: string): Hex {
  return ipv6(from, "ff02::1", { next: 58, content: ndWord(kind, about) });
}

/** Type and payload of a RARP request: its sender, and the target whose address it requests. Source: RFC 903 */
export function rarp(sender: string, target: string, op = 3): Hex {
  return `8035000108000604${number(op, 2)}${mac(sender)}00000000${mac(target)}00000000`;
}

export function sendFrames(guest: string, hex: Hex, count: number): void {
  const script = `
    use strict;
    my ($frame, $index) = @ARGV;
    socket(my $socket, 17, 3, 0x300) or die "socket: $!";
    my $to = pack("S n i S C C a8", 17, 0, $index, 0, 0, 6, "");
    for (1 .. ${String(count)}) { send($socket, pack("H*", $frame), 0, $to) or die "send: $!"; }`;
  const index = run("ip", "netns", "exec", guest, "cat", "/sys/class/net/eth0/ifindex").trim();
  run("ip", "netns", "exec", guest, "perl", "-e", script, hex, index);
}

export function sendAll(guest: string, frames: readonly Hex[]): void {
  const script = `
    use strict;
    my ($index, @frames) = @ARGV;
    socket(my $socket, 17, 3, 0x300) or die "socket: $!";
    my $to = pack("S n i S C C a8", 17, 0, $index, 0, 0, 6, "");
    for (@frames) { send($socket, pack("H*", $_), 0, $to) or die "send: $!"; }`;
  const index = run("ip", "netns", "exec", guest, "cat", "/sys/class/net/eth0/ifindex").trim();
  run("ip", "netns", "exec", guest, "perl", "-e", script, index, ...frames);
}
