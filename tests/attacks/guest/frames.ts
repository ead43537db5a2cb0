// SPDX-License-Identifier: Apache-2.0
// Frames byte by byte, and a guest that sends them past its own kernel.
import { parseIp } from "@patchbay/api";
import { run } from "../../contract/podnet/links.ts";

/** Bytes as hexadecimal digits. */
type Hex = string;

function number(value: number | bigint, bytes: number): Hex {
  return value.toString(16).padStart(bytes * 2, "0");
}

function mac(text: string): Hex {
  return text.replaceAll(":", "");
}

/** An address in the order of the network. */
export function address(text: string): Hex {
  const ip = parseIp(text);
  if (ip === undefined) throw new Error(`${text} is no address`);
  return number(ip.value, ip.version === 4 ? 4 : 16);
}

/** An Ethernet frame, filled up to the least length. */
export function frame(to: string, from: string, rest: Hex): Hex {
  return `${mac(to)}${mac(from)}${rest}`.padEnd(120, "0");
}

/** Who speaks in ARP, and of whom. */
export interface Arp {
  readonly op: 1 | 2;
  readonly mac: string;
  readonly ip: string;
  readonly asks: string;
}

/** Type and content of an ARP frame. */
export function arp({ op, mac: sender, ip, asks }: Arp): Hex {
  return `0806000108000604${number(op, 2)}${mac(sender)}${address(ip)}${"00".repeat(6)}${address(asks)}`;
}

/** Type and content of a UDP packet. */
export function udp(from: string, to: string, ports: readonly [number, number]): Hex {
  const length = 8 + 16;
  const content = `${number(ports[0], 2)}${number(ports[1], 2)}${number(length, 2)}0000${"00".repeat(16)}`;
  return from.includes(":") ? ipv6(from, to, { next: 17, content }) : ipv4(from, to, content);
}

/** Where br_netfilter is loaded, a bridge drops packets of IPv4 whose sum is wrong. Source: RFC 1071 */
function checksum(header: Hex): Hex {
  const words = header.match(/.{4}/g) ?? [];
  const sum = words.reduce((total, word) => total + Number.parseInt(word, 16), 0);
  const folded = (sum & 0xffff) + (sum >> 16);
  return number(0xffff - ((folded & 0xffff) + (folded >> 16)), 2);
}

function ipv4(from: string, to: string, content: Hex): Hex {
  const length = 20 + content.length / 2;
  const [before, after] = [`4500${number(length, 2)}000000004011`, address(from) + address(to)];
  return `0800${before}${checksum(`${before}0000${after}`)}${after}${content}`;
}

function ipv6(from: string, to: string, { next, content }: { next: number; content: Hex }): Hex {
  const length = content.length / 2;
  return `86dd60000000${number(length, 2)}${number(next, 1)}ff${address(from)}${address(to)}${content}`;
}

/** Kinds of ICMPv6. Source: RFC 4861, 4 */
export const ND = {
  advertisesRouter: 134,
  solicits: 135,
  advertises: 136,
  redirects: 137,
} as const;

/** Type and content of a packet of neighbour discovery about an address. */
export function nd(from: string, kind: number, about: string): Hex {
  const content = `${number(kind, 1)}00000060000000${address(about)}`;
  return ipv6(from, "ff02::1", { next: 58, content });
}

/** Sends a frame several times from the guest's NIC. */
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
