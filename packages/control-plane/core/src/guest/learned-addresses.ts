// SPDX-License-Identifier: Apache-2.0
// Learns a guest's addresses from ARP, neighbor discovery and DHCP frames at its tap. The guest and its network can forge such frames.
// Therefore only the status shows these addresses: no rule, Service or policy uses them. Source: RFC 826, RFC 4861, RFC 2131
import { isDefaultNetwork, type IfaceStatus } from "@patchbay/api";
import { IP_BITS, isLinkLocal, normalizeMac, parseIp, printAddress } from "@patchbay/api/values";
import type { FrameFilter, WatchedFrame } from "../interfaces/node/link-watch.ts";
import type { FrameTest } from "../interfaces/node/netlink.ts";
import type { IfaceFacts } from "../nics/facts.ts";
import { buildWiring, findBindingModule, isMadeByHook } from "../nics/node-plan.ts";
import { isHostAddress } from "./links.ts";

interface AddressClaim {
  readonly claimant: "guest" | "other";
  readonly address: string;
}

/** EtherTypes. Source: IEEE 802 numbers */
const [ARP, IPV4, IPV6] = [0x0806, 0x0800, 0x86dd];
const [UDP, ICMPV6] = [17, 58];
const [SOLICITATION, ADVERTISEMENT] = [135, 136];
const BOOTP_REPLY = 2;
const [DHCP_PADDING, DHCP_MESSAGE_TYPE, DHCP_END] = [0, 53, 255];
const [DHCP_SERVER_PORT, DHCP_CLIENT_PORT] = [67, 68];
/** IPv4 header of 20 bytes, without options. DHCP servers send no IPv4 options. */
const IPV4_WITHOUT_OPTIONS = 0x45;
/** Hop limit of neighbor discovery. It proves that no router forwarded the message. Source: RFC 4861 section 7.1 */
const LINK_HOP_LIMIT = 255;

/** Offsets of fields in an Ethernet frame, in bytes. */
const AT = {
  sourceMac: 6,
  etherType: 12,
  arpAddressTypes: 14,
  arpSenderMac: 22,
  arpSenderIp: 28,
  ipv4Header: 14,
  ipv4Fragment: 20,
  ipv4Protocol: 23,
  udpSourcePort: 34,
  udpTargetPort: 36,
  bootpOperation: 42,
  bootpAssignedIp: 58,
  bootpClientMac: 70,
  dhcpCookie: 278,
  dhcpOptions: 282,
  ipv6Protocol: 20,
  ipv6HopLimit: 21,
  ipv6Source: 22,
  icmpType: 54,
  ndTarget: 62,
} as const;
/** Whether the kernel removed a VLAN tag from the frame. Source: linux/filter.h, SKF_AD_VLAN_TAG_PRESENT */
const VLAN_TAG_PRESENT_AT = 0xfffff030;
/** Ethernet and IPv4, with address lengths of 6 and 4 bytes. */
const ARP_ADDRESS_TYPES = "000108000604";
/** Operation, hardware type and address length. */
const BOOTP_REPLY_TO_ETHERNET = "020106";
const DHCP_COOKIE = "63825363";
const DHCP_ACK = "05";
/** Bits of the fragment field that are set in fragments: more fragments, and the offset. */
const FRAGMENT_MASK = 0x3fff;

function test(offset: number, size: FrameTest["size"], value: number): FrameTest {
  return { offset, size, value };
}

/** Tests bytes, given as an even number of pairs of hex digits. */
function testBytes(offset: number, hex: string): readonly FrameTest[] {
  const size = hex.length >= 8 ? 4 : 2;
  if (hex === "") return [];
  const value = Number.parseInt(hex.slice(0, 2 * size), 16);
  return [test(offset, size, value), ...testBytes(offset + size, hex.slice(2 * size))];
}

/** Tests the EtherType. Excludes frames with a VLAN tag, because addresses in a guest's VLAN are not on the NIC's network. */
function testType(etherType: number): readonly FrameTest[] {
  return [test(AT.etherType, 2, etherType), test(VLAN_TAG_PRESENT_AT, 4, 0)];
}

function testNeighborMessage(type: number): readonly FrameTest[] {
  return [
    ...testType(IPV6),
    test(AT.ipv6Protocol, 1, ICMPV6),
    test(AT.ipv6HopLimit, 1, LINK_HOP_LIMIT),
    test(AT.icmpType, 1, type),
  ];
}

function testForeignClaim(address: string): readonly FrameTest[] {
  const { version, value = 0n } = parseIp(address) ?? {};
  const hex = value.toString(16);
  return version === 6
    ? [...testNeighborMessage(ADVERTISEMENT), ...testBytes(AT.ndTarget, hex.padStart(32, "0"))]
    : [...testType(ARP), ...testBytes(AT.arpSenderIp, hex.padStart(8, "0"))];
}

function testDhcpReply(mac: string): readonly FrameTest[] {
  return [
    ...testType(IPV4),
    test(AT.ipv4Header, 1, IPV4_WITHOUT_OPTIONS),
    test(AT.ipv4Protocol, 1, UDP),
    test(AT.udpSourcePort, 2, DHCP_SERVER_PORT),
    test(AT.udpTargetPort, 2, DHCP_CLIENT_PORT),
    test(AT.bootpOperation, 1, BOOTP_REPLY),
    ...testBytes(AT.bootpClientMac, mac),
  ];
}

function toHexDigits(mac: string): string {
  return normalizeMac(mac).replaceAll(":", "");
}

/**
 * Builds the filter of a NIC's tap: ARP and neighbor discovery from the guest's MAC, DHCP replies to that MAC, and claims of
 * `addresses` by other hosts. All other frames of the network remain in the kernel.
 */
export function buildAnnouncementFilter(mac: string, addresses: readonly string[]): FrameFilter {
  const guestMac = toHexDigits(mac);
  const fromGuest = testBytes(AT.sourceMac, guestMac);
  return {
    incoming: [
      [...testType(ARP), ...fromGuest, ...testBytes(AT.arpSenderMac, guestMac)],
      [...testNeighborMessage(SOLICITATION), ...fromGuest],
      [...testNeighborMessage(ADVERTISEMENT), ...fromGuest],
    ],
    outgoing: [testDhcpReply(guestMac), ...addresses.map(testForeignClaim)],
  };
}

class FrameReader {
  readonly #hex: string;

  constructor(bytes: Uint8Array) {
    this.#hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** Returns the hex digits of the bytes; fewer beyond the end of the frame. */
  readHex(offset: number, bytes: number): string {
    return this.#hex.slice(2 * offset, 2 * (offset + bytes));
  }

  /** Returns the big-endian number, or NaN beyond the end of the frame. */
  readNumber(offset: number, bytes: number): number {
    return Number.parseInt(this.readHex(offset, bytes), 16);
  }

  /** Returns the address, or undefined beyond the end of the frame. */
  readIp(offset: number, version: 4 | 6): string | undefined {
    const bytes = IP_BITS[version] / 8;
    const digits = this.readHex(offset, bytes);
    if (digits.length < 2 * bytes) return undefined;
    return printAddress({ version, value: BigInt(`0x${digits}`) });
  }
}

function readArp(frame: FrameReader): { readonly mac?: string; readonly address?: string } {
  const address = frame.readIp(AT.arpSenderIp, 4);
  const isIpv4 = frame.readHex(AT.arpAddressTypes, 6) === ARP_ADDRESS_TYPES;
  return isIpv4 && address !== undefined ? { mac: frame.readHex(AT.arpSenderMac, 6), address } : {};
}

/** Returns the address that a neighbor message announces: the source of a solicitation, or the target of an advertisement. */
function readNeighborMessage(frame: FrameReader): string | undefined {
  const isNeighborMessage =
    frame.readNumber(AT.ipv6Protocol, 1) === ICMPV6 &&
    frame.readNumber(AT.ipv6HopLimit, 1) === LINK_HOP_LIMIT;
  if (!isNeighborMessage) return undefined;
  const type = frame.readNumber(AT.icmpType, 1);
  if (type === SOLICITATION) return frame.readIp(AT.ipv6Source, 6);
  return type === ADVERTISEMENT ? frame.readIp(AT.ndTarget, 6) : undefined;
}

/** Returns the hex digits of a DHCP option's value. Ignores options beyond the captured part of the frame. */
function findDhcpOption(frame: FrameReader, wanted: number): string | undefined {
  let at = AT.dhcpOptions;
  for (;;) {
    const [code, length] = [frame.readNumber(at, 1), frame.readNumber(at + 1, 1)];
    if (code === wanted) return frame.readHex(at + 2, length);
    if (code === DHCP_PADDING) at += 1;
    else if (code === DHCP_END || Number.isNaN(length)) return undefined;
    else at += 2 + length;
  }
}

/** Returns the address that a DHCPACK assigns to the MAC. */
function readDhcpAck(frame: FrameReader, mac: string): string | undefined {
  const isReply =
    frame.readNumber(AT.ipv4Header, 1) === IPV4_WITHOUT_OPTIONS &&
    (frame.readNumber(AT.ipv4Fragment, 2) & FRAGMENT_MASK) === 0 &&
    frame.readNumber(AT.ipv4Protocol, 1) === UDP &&
    frame.readNumber(AT.udpSourcePort, 2) === DHCP_SERVER_PORT &&
    frame.readNumber(AT.udpTargetPort, 2) === DHCP_CLIENT_PORT &&
    frame.readHex(AT.bootpOperation, 3) === BOOTP_REPLY_TO_ETHERNET &&
    frame.readHex(AT.bootpClientMac, 6) === mac &&
    frame.readHex(AT.dhcpCookie, 4) === DHCP_COOKIE;
  const isAck = isReply && findDhcpOption(frame, DHCP_MESSAGE_TYPE) === DHCP_ACK;
  return isAck ? frame.readIp(AT.bootpAssignedIp, 4) : undefined;
}

/** Checks whether other hosts can use the address. Excludes link-local addresses, which each guest has. */
function isListable(address: string): boolean {
  const parsed = parseIp(address);
  return parsed !== undefined && isHostAddress(parsed) && !isLinkLocal(address);
}

function readFromGuest(frame: FrameReader, mac: string): string | undefined {
  if (frame.readHex(AT.sourceMac, 6) !== mac) return undefined;
  const etherType = frame.readNumber(AT.etherType, 2);
  if (etherType === IPV6) return readNeighborMessage(frame);
  const arp = etherType === ARP ? readArp(frame) : {};
  return arp.mac === mac ? arp.address : undefined;
}

/** Returns the address that another host has according to its ARP message or neighbor advertisement. */
function readFromOther(frame: FrameReader, mac: string): string | undefined {
  if (frame.readHex(AT.sourceMac, 6) === mac) return undefined;
  const etherType = frame.readNumber(AT.etherType, 2);
  if (etherType === IPV6) {
    const isClaim = frame.readNumber(AT.icmpType, 1) === ADVERTISEMENT;
    return isClaim ? readNeighborMessage(frame) : undefined;
  }
  const arp = etherType === ARP ? readArp(frame) : {};
  return arp.mac === mac ? undefined : arp.address;
}

/**
 * Returns the address that a frame at a guest's tap claims. Returns undefined for link-local addresses, for probes (sender 0.0.0.0 or
 * `::`), and for all other frames.
 */
export function readAddressClaim(
  { isOutgoing, frame: bytes }: WatchedFrame,
  guestMac: string,
): AddressClaim | undefined {
  const [frame, mac] = [new FrameReader(bytes), toHexDigits(guestMac)];
  const isDhcp = isOutgoing && frame.readNumber(AT.etherType, 2) === IPV4;
  const ofGuest = isDhcp ? readDhcpAck(frame, mac) : readFromGuest(frame, mac);
  const isOther = isOutgoing && !isDhcp;
  const address = isOther ? readFromOther(frame, mac) : ofGuest;
  if (address === undefined || !isListable(address)) return undefined;
  return { claimant: isOther ? "other" : "guest", address };
}

/** Times are monotonic, in milliseconds. */
export interface LearnedAddress {
  readonly address: string;
  readonly sinceMs: number;
  readonly seenMs: number;
}

/** Maximum number of addresses of a NIC, which limits the size of the VMI. */
const ADDRESSES_MAX = 8;
/** Age in milliseconds at which an address is removed. It is long, because quiet guests may announce one only at a DHCP renewal. */
const LIFETIME_MS = 24 * 3_600_000;
/** Age in milliseconds at which an address of an earlier process is removed. */
const RESTORED_LIFETIME_MS = 3_600_000;
/** Milliseconds after which a new address replaces an address of its family that the guest no longer announces. */
const REPLACED_AFTER_MS = 600_000;
/** Minimum age in milliseconds of an address that a new one replaces at the limit. Slows guests that announce many addresses. */
const EVICTED_AFTER_MS = 60_000;

function findFamily(address: string): number | undefined {
  return parseIp(address)?.version;
}

/** Returns the time at which the address is removed unless the guest announces it again. */
function findEndMs(entry: LearnedAddress, known: readonly LearnedAddress[]): number {
  const replacedAtMs = known
    .filter(({ address }) => findFamily(address) === findFamily(entry.address))
    .filter(({ sinceMs }) => sinceMs > entry.seenMs)
    .map(({ sinceMs }) => sinceMs + REPLACED_AFTER_MS);
  return Math.min(entry.seenMs + LIFETIME_MS, ...replacedAtMs);
}

export function removeExpired(
  known: readonly LearnedAddress[],
  nowMs: number,
): readonly LearnedAddress[] {
  return known.filter((entry) => findEndMs(entry, known) > nowMs);
}

/** Returns the time at which the next address is removed. Undefined if no address is known. */
export function findNextEndMs(known: readonly LearnedAddress[]): number | undefined {
  if (known.length === 0) return undefined;
  return Math.min(...known.map((entry) => findEndMs(entry, known)));
}

function withNew(
  known: readonly LearnedAddress[],
  address: string,
  nowMs: number,
): readonly LearnedAddress[] {
  const added = [{ address, sinceMs: nowMs, seenMs: nowMs }];
  if (known.length < ADDRESSES_MAX) return [...added, ...known];
  const oldestMs = Math.min(...known.map(({ seenMs }) => seenMs));
  if (nowMs - oldestMs < EVICTED_AFTER_MS) return known;
  const evicted = known.findLastIndex(({ seenMs }) => seenMs === oldestMs);
  return [...added, ...known.toSpliced(evicted, 1)];
}

/** Applies the claims of frames to the known addresses, the newest address first. */
export function learnAddresses(
  known: readonly LearnedAddress[],
  claims: readonly AddressClaim[],
  nowMs: number,
): readonly LearnedAddress[] {
  return claims.reduce(
    (current, { claimant, address }) => {
      if (claimant === "other") return current.filter((entry) => entry.address !== address);
      return current.some((entry) => entry.address === address)
        ? current.map((entry) => (entry.address === address ? { ...entry, seenMs: nowMs } : entry))
        : withNew(current, address, nowMs);
    },
    removeExpired(known, nowMs),
  );
}

/** Learned addresses of an interface, and the pod NIC to whose network they belong. */
export interface LearnedOnNic {
  readonly podInterfaceName: string;
  readonly addresses: readonly string[];
}

/** Returns the learned addresses that the status reports, by interface. */
export function listReportedLearned(
  reported: readonly IfaceStatus[],
): ReadonlyMap<string, LearnedOnNic> {
  return new Map(
    reported.flatMap((status): readonly (readonly [string, LearnedOnNic])[] => {
      const { name, podInterfaceName, ipAddresses: addresses = [], addressInfo } = status;
      const isLearned = addressInfo?.source === "learned";
      return name === undefined || podInterfaceName === undefined || !isLearned
        ? []
        : [[name, { podInterfaceName, addresses }]];
    }),
  );
}

/** Restores addresses that the status reports. They are removed after an hour unless the guest announces them again. */
export function restoreLearned(
  addresses: readonly string[],
  nowMs: number,
): readonly LearnedAddress[] {
  const seenMs = nowMs - LIFETIME_MS + RESTORED_LIFETIME_MS;
  return addresses.slice(0, ADDRESSES_MAX).map((address) => ({ address, sinceMs: seenMs, seenMs }));
}

export interface ListenedNic {
  readonly name: string;
  readonly podInterfaceName: string;
  readonly tapName: string;
  readonly tapIndex: number;
  readonly mac: string;
}

function hasNetworkAddresses({ attachment, remembered, links }: IfaceFacts): boolean {
  const known = [attachment?.ips, remembered?.addresses, links.addresses];
  return known.some((addresses = []) => addresses.length > 0);
}

function toListenedNic(facts: IfaceFacts): readonly ListenedNic[] {
  const { name, network, attachment, device, links, podInterfaceName } = facts;
  const isInUse = links.isWired && links.isTapOpen && attachment?.state === "Attached";
  const isOnPodNetwork = network === undefined || isDefaultNetwork(network);
  if (device === undefined || device.guest !== undefined || !isInUse || isOnPodNetwork) return [];
  if (findBindingModule(facts).addressSource === "pod" || isMadeByHook(facts)) return [];
  if (hasNetworkAddresses(facts)) return [];
  const tapName = buildWiring(facts)?.tapName;
  const { tapIndex } = links;
  return tapName === undefined || tapIndex === undefined
    ? []
    : [{ name, podInterfaceName, tapName, tapIndex, mac: device.mac }];
}

/** Lists the NICs in use without addresses of CNI and of the guest agent. The pod network always has addresses. */
export function listListenedNics(ifaces: readonly IfaceFacts[]): readonly ListenedNic[] {
  return ifaces.flatMap(toListenedNic);
}
