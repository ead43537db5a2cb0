// SPDX-License-Identifier: Apache-2.0
// Which frames at a tap show a guest's address, how long it remains, and on which NICs addresses are learned.
import { parseIp } from "@patchbay/api/values";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anIface, IN_USE, type IfaceOptions } from "../testing/node-scene.ts";
import type { FrameTest } from "../interfaces/node/netlink.ts";
import type { IfaceFacts } from "../nics/facts.ts";
import {
  buildAnnouncementFilter,
  findNextEndMs,
  learnAddresses,
  type LearnedAddress,
  listListenedNics,
  listReportedLearned,
  readAddressClaim,
  removeExpired,
  restoreLearned,
} from "./learned-addresses.ts";
import { isHostAddress } from "./links.ts";

const MAC = "02:00:00:00:00:0a";
const OWN = "02000000000a";
const OTHER = "02000000000b";
const ALL = "ffffffffffff";
const IP = "0a000005"; // 10.0.0.5
const PEER = "0a000001";
const ZERO = "00000000";
const V6 = "fd000000000000000000000000000005"; // fd00::5
const PEER6 = "fd000000000000000000000000000001";
const LINK_LOCAL6 = "fe8000000000000000000000000000aa";
const NONE6 = "0".repeat(32);

interface ArpFields {
  readonly source?: string;
  readonly mac?: string;
  readonly ip?: string;
  readonly target?: string;
  readonly operation?: string;
  readonly types?: string;
}

function arp(fields: ArpFields = {}): string {
  const { source = OWN, mac = OWN, ip = IP, target = PEER } = fields;
  const { operation = "0001", types = "000108000604" } = fields;
  return `${ALL}${source}0806${types}${operation}${mac}${ip}${"0".repeat(12)}${target}`;
}

interface NeighborFields {
  readonly source?: string;
  readonly type?: "87" | "88" | "85";
  readonly from?: string;
  readonly target?: string;
  readonly hopLimit?: string;
  readonly protocol?: string;
}

function neighbor(fields: NeighborFields = {}): string {
  const { source = OWN, type = "87", from = V6, target = PEER6 } = fields;
  const { hopLimit = "ff", protocol = "3a" } = fields;
  const header = `600000000018${protocol}${hopLimit}${from}${PEER6}`;
  return `3333ff000001${source}86dd${header}${type}00000000000000${target}`;
}

interface DhcpFields {
  readonly type?: string;
  readonly mac?: string;
  readonly assigned?: string;
  readonly operation?: string;
  readonly fragment?: string;
  readonly ports?: string;
  readonly header?: string;
  readonly cookie?: string;
  readonly options?: string;
}

function dhcp(fields: DhcpFields = {}): string {
  const { type = "05", mac = OWN, assigned = IP, operation = "02", fragment = "4000" } = fields;
  const { ports = "00430044", header = "45", cookie = "63825363" } = fields;
  const { options = `3604${PEER}00003501${type}ff` } = fields;
  const ip = `${header}0001480000${fragment}40110000${PEER}${IP}`;
  const client = `${mac}${"0".repeat(20)}${"00".repeat(192)}`;
  const bootp = `${operation}010600deadbeef00000000${ZERO}${assigned}${PEER}${ZERO}${client}`;
  return `${OWN}${OTHER}0800${ip}${ports}01340000${bootp}${cookie}${options}`;
}

function toFrame(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

interface FrameRow {
  readonly name: string;
  readonly frame: string;
  readonly want: string | undefined;
}

const FROM_GUEST: readonly FrameRow[] = [
  { name: "an ARP request", frame: arp(), want: "10.0.0.5" },
  { name: "an ARP reply", frame: arp({ operation: "0002" }), want: "10.0.0.5" },
  { name: "a gratuitous ARP request", frame: arp({ target: IP }), want: "10.0.0.5" },
  { name: "a padded ARP request", frame: arp() + "00".repeat(18), want: "10.0.0.5" },
  { name: "an ARP probe", frame: arp({ ip: ZERO, target: IP }), want: undefined },
  { name: "ARP for another MAC", frame: arp({ mac: OTHER }), want: undefined },
  { name: "ARP of another sender", frame: arp({ source: OTHER }), want: undefined },
  { name: "ARP with an IPv4 link-local address", frame: arp({ ip: "a9fe0105" }), want: undefined },
  { name: "ARP with a multicast address", frame: arp({ ip: "e0000001" }), want: undefined },
  { name: "ARP with a loopback address", frame: arp({ ip: "7f000001" }), want: undefined },
  { name: "ARP of another hardware", frame: arp({ types: "000608000604" }), want: undefined },
  { name: "an incomplete ARP request", frame: arp().slice(0, 60), want: undefined },
  { name: "a solicitation, by its source", frame: neighbor(), want: "fd00::5" },
  {
    name: "an advertisement, by its target",
    frame: neighbor({ type: "88", from: LINK_LOCAL6, target: V6 }),
    want: "fd00::5",
  },
  {
    name: "a solicitation of duplicate address detection",
    frame: neighbor({ from: NONE6, target: V6 }),
    want: undefined,
  },
  { name: "a router solicitation", frame: neighbor({ type: "85" }), want: undefined },
  { name: "a link-local source", frame: neighbor({ from: LINK_LOCAL6 }), want: undefined },
  { name: "a routed solicitation", frame: neighbor({ hopLimit: "fe" }), want: undefined },
  { name: "other IPv6", frame: neighbor({ protocol: "11" }), want: undefined },
  { name: "a neighbor of the guest", frame: neighbor({ source: OTHER }), want: undefined },
  {
    name: "an incomplete advertisement",
    frame: neighbor({ type: "88", target: V6 }).slice(0, -2),
    want: undefined,
  },
  { name: "a DHCP reply that the guest sends", frame: dhcp(), want: undefined },
  { name: "an empty frame", frame: "", want: undefined },
];

const TO_GUEST: readonly FrameRow[] = [
  { name: "a DHCPACK", frame: dhcp(), want: "guest 10.0.0.5" },
  { name: "a DHCPOFFER", frame: dhcp({ type: "02" }), want: undefined },
  { name: "a DHCPNAK", frame: dhcp({ type: "06" }), want: undefined },
  { name: "a DHCPACK for another MAC", frame: dhcp({ mac: OTHER }), want: undefined },
  { name: "a DHCPACK to a DHCPINFORM", frame: dhcp({ assigned: ZERO }), want: undefined },
  { name: "a DHCP request", frame: dhcp({ operation: "01" }), want: undefined },
  { name: "a fragment", frame: dhcp({ fragment: "2000" }), want: undefined },
  { name: "a later fragment", frame: dhcp({ fragment: "0010" }), want: undefined },
  { name: "another port", frame: dhcp({ ports: "00350044" }), want: undefined },
  { name: "BOOTP without DHCP", frame: dhcp({ cookie: "00000000" }), want: undefined },
  { name: "options without an end", frame: dhcp({ options: "3604" }), want: undefined },
  { name: "options without a type", frame: dhcp({ options: "000000ff350105" }), want: undefined },
  {
    name: "another host's ARP request",
    frame: arp({ source: OTHER, mac: OTHER }),
    want: "other 10.0.0.5",
  },
  {
    name: "another host's advertisement",
    frame: neighbor({ source: OTHER, type: "88", target: V6 }),
    want: "other fd00::5",
  },
  {
    name: "another host's solicitation",
    frame: neighbor({ source: OTHER, from: V6 }),
    want: undefined,
  },
  { name: "the guest's own ARP request, looped", frame: arp(), want: undefined },
  {
    name: "the guest's own advertisement, looped",
    frame: neighbor({ type: "88", target: V6 }),
    want: undefined,
  },
  {
    name: "ARP about the guest's MAC by a proxy",
    frame: arp({ source: OTHER }),
    want: undefined,
  },
  {
    name: "another host's probe",
    frame: arp({ source: OTHER, mac: OTHER, ip: ZERO }),
    want: undefined,
  },
];

/** Evaluates the tests as the kernel does. Source: linux/filter.h */
function passes(tests: readonly FrameTest[], frame: Uint8Array, vlanTagPresent: number): boolean {
  const view = new DataView(frame.buffer);
  const read = ({ offset, size }: FrameTest): number | undefined => {
    if (offset >= 0xfffff000) return vlanTagPresent;
    if (offset + size > frame.length) return undefined;
    if (size === 1) return view.getUint8(offset);
    return size === 2 ? view.getUint16(offset) : view.getUint32(offset);
  };
  return tests.every((each) => read(each) === each.value);
}

function isReported(isOutgoing: boolean, hex: string, vlanTagPresent = 0): boolean {
  const filter = buildAnnouncementFilter(MAC.toUpperCase(), ["10.0.0.5", "fd00::5"]);
  const lists = isOutgoing ? filter.outgoing : filter.incoming;
  return lists.some((tests) => passes(tests, toFrame(hex), vlanTagPresent));
}

function readClaim(isOutgoing: boolean, hex: string): string | undefined {
  const claim = readAddressClaim({ isOutgoing, frame: toFrame(hex) }, MAC.toUpperCase());
  return claim && `${claim.claimant} ${claim.address}`;
}

/** Reads the claim if the kernel reports the frame. */
function readReported(isOutgoing: boolean, hex: string): string | undefined {
  return isReported(isOutgoing, hex) ? readClaim(isOutgoing, hex) : undefined;
}

describe("a frame of the guest:", () => {
  test.each(FROM_GUEST)("$name", ({ frame, want }) => {
    const claim = want === undefined ? undefined : `guest ${want}`;
    expect(readClaim(false, frame)).toBe(claim);
    expect(readReported(false, frame)).toBe(claim);
  });
});

describe("a frame to the guest:", () => {
  test.each(TO_GUEST)("$name", ({ frame, want }) => {
    expect(readClaim(true, frame)).toBe(want);
    expect(readReported(true, frame)).toBe(want);
  });
});

test("a damaged frame claims an address of a host, or none", () => {
  const frames = [arp(), neighbor(), neighbor({ type: "88", target: V6 }), dhcp()].map(toFrame);
  const change = fc.tuple(fc.nat({ max: 400 }), fc.integer({ min: 0, max: 255 }));
  const given = fc.record({
    isOutgoing: fc.boolean(),
    frame: fc.constantFrom(...frames),
    length: fc.nat({ max: 400 }),
    changes: fc.array(change, { maxLength: 6 }),
  });
  const check = fc.property(given, ({ isOutgoing, frame, length, changes }) => {
    const damaged = Uint8Array.from(frame.slice(0, length));
    for (const [at, value] of changes) damaged[at] = value;
    const claim = readAddressClaim({ isOutgoing, frame: damaged }, MAC);
    if (claim === undefined) return;
    const address = parseIp(claim.address);
    expect(address !== undefined && isHostAddress(address)).toBe(true);
  });
  fc.assert(check);
});

describe("the kernel does not report", () => {
  const unknown = "0a000063";
  test.each([
    { name: "IPv4 traffic of the guest", given: [false, dhcp()] },
    { name: "other IPv6 traffic of the guest", given: [false, neighbor({ protocol: "06" })] },
    { name: "ARP of another sender at the tap", given: [false, arp({ source: OTHER })] },
    { name: "frames of the guest's VLANs", given: [false, arp(), 1] },
    { name: "DHCP in a VLAN", given: [true, dhcp(), 1] },
    { name: "the network's ARP for other addresses", given: [true, arp({ ip: unknown })] },
    { name: "the network's solicitations", given: [true, neighbor({ source: OTHER })] },
    { name: "DHCP replies for other guests", given: [true, dhcp({ mac: OTHER })] },
    { name: "IPv4 with options", given: [true, dhcp({ header: "46" })] },
    { name: "short frames", given: [true, arp().slice(0, 40)] },
  ] as const)("$name", ({ given: [isOutgoing, frame, vlanTagPresent] }) => {
    expect(isReported(isOutgoing, frame, vlanTagPresent)).toBe(false);
  });
});

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const [FIRST, SECOND, SIXTH] = ["10.0.0.1", "10.0.0.2", "fd00::6"];

/** Applies claims `ADDRESS` of the guest, and `!ADDRESS` of another host, each at its time in milliseconds. */
function learn(...claims: readonly (readonly [number, string])[]): readonly LearnedAddress[] {
  return claims.reduce<readonly LearnedAddress[]>((known, [atMs, text]) => {
    const claimant = text.startsWith("!") ? "other" : "guest";
    return learnAddresses(known, [{ claimant, address: text.replace("!", "") }], atMs);
  }, []);
}

function listAt(known: readonly LearnedAddress[], nowMs: number): readonly string[] {
  return removeExpired(known, nowMs).map(({ address }) => address);
}

describe("learned addresses", () => {
  type Row = {
    readonly name: string;
    readonly claims: readonly (readonly [number, string])[];
    readonly atMs: number;
    readonly want: readonly string[];
  };
  test.each<Row>([
    { name: "are none at first", claims: [], atMs: 0, want: [] },
    { name: "remain for a day", claims: [[0, FIRST]], atMs: DAY - 1, want: [FIRST] },
    { name: "are removed after a day", claims: [[0, FIRST]], atMs: DAY, want: [] },
    {
      name: "remain for a day after the last announcement",
      claims: [
        [0, FIRST],
        [HOUR, FIRST],
      ],
      atMs: DAY,
      want: [FIRST],
    },
    {
      name: "are listed beside a new one, the new one first",
      claims: [
        [0, FIRST],
        [HOUR, SECOND],
      ],
      atMs: HOUR + 10 * MINUTE - 1,
      want: [SECOND, FIRST],
    },
    {
      name: "are replaced ten minutes after a new one of the family",
      claims: [
        [0, FIRST],
        [HOUR, SECOND],
      ],
      atMs: HOUR + 10 * MINUTE,
      want: [SECOND],
    },
    {
      name: "remain if the guest announces both",
      claims: [
        [0, FIRST],
        [HOUR, SECOND],
        [HOUR + MINUTE, FIRST],
      ],
      atMs: 2 * HOUR,
      want: [SECOND, FIRST],
    },
    {
      name: "remain beside a new one of the other family",
      claims: [
        [0, FIRST],
        [HOUR, SIXTH],
      ],
      atMs: 2 * HOUR,
      want: [SIXTH, FIRST],
    },
    {
      name: "are removed if another host announces them",
      claims: [
        [0, FIRST],
        [0, SIXTH],
        [1, `!${FIRST}`],
      ],
      atMs: 1,
      want: [SIXTH],
    },
    {
      name: "do not change if another host announces others",
      claims: [
        [0, FIRST],
        [1, `!${SECOND}`],
      ],
      atMs: 1,
      want: [FIRST],
    },
  ])("$name", ({ claims, atMs, want }) => {
    expect(listAt(learn(...claims), atMs)).toEqual(want);
  });

  const numbered = (count: number, atMs: number): readonly (readonly [number, string])[] =>
    Array.from({ length: count }, (_none, index) => [atMs + index, `10.1.0.${String(index)}`]);

  test("are at most eight, which a guest can change only each minute", () => {
    const full = learn(...numbered(20, 0));
    expect(listAt(full, 20).toReversed()).toEqual(numbered(8, 0).map(([, address]) => address));
    const claim = [{ claimant: "guest", address: SIXTH }] as const;
    expect(learnAddresses(full, claim, MINUTE - 1)).toEqual(full);
    const later = listAt(learnAddresses(full, claim, MINUTE), MINUTE);
    expect(later).toEqual([SIXTH, ...listAt(full, 20).slice(0, 7)]);
  });

  test("have a time of the next removal, at which one is removed", () => {
    expect(findNextEndMs([])).toBeUndefined();
    const known = learn([0, FIRST], [HOUR, SECOND]);
    expect(findNextEndMs(known)).toBe(HOUR + 10 * MINUTE);
    const last = removeExpired(known, HOUR + 10 * MINUTE);
    expect(findNextEndMs(last)).toBe(HOUR + DAY);
  });

  test("of an earlier process remain for an hour, or until ten minutes after a new one", () => {
    const restored = restoreLearned([FIRST, SIXTH], 5);
    expect(listAt(restored, HOUR + 4)).toEqual([FIRST, SIXTH]);
    expect(listAt(restored, HOUR + 5)).toEqual([]);
    const next = learnAddresses(restored, [{ claimant: "guest", address: SECOND }], 6);
    expect(listAt(next, 10 * MINUTE + 6)).toEqual([SECOND, SIXTH]);
    const seen = learnAddresses(restored, [{ claimant: "guest", address: FIRST }], 6);
    expect(listAt(seen, 2 * HOUR)).toEqual([FIRST]);
  });

  test("are restored from entries of the status whose source they are", () => {
    const entry = (name: string, source: "learned" | "guest-agent"): object => ({
      name,
      podInterfaceName: `pod${name}`,
      ipAddresses: [FIRST],
      addressInfo: { source, since: "" },
    });
    const reported = [entry("one", "learned"), entry("two", "guest-agent"), { name: "three" }];
    expect([...listReportedLearned(reported)]).toEqual([
      ["one", { podInterfaceName: "podone", addresses: [FIRST] }],
    ]);
  });
});

describe("addresses are learned", () => {
  const given = (more: Partial<IfaceFacts> = {}, options: IfaceOptions = {}): IfaceFacts => {
    const links = { ...IN_USE, tapIndex: 7 };
    const facts = anIface({ attachment: "Attached", device: {}, links, ...options });
    const network = { name: "a", multus: { networkName: "blue" } };
    return { ...facts, network, ...more };
  };
  const attachment = { name: "a", podInterfaceName: "pod0a", state: "Attached" } as const;
  const remembered = {
    podInterfaceName: "pod0a",
    index: 2,
    addresses: ["10.0.0.1/24"],
    routes: [],
  };
  const links = { ...IN_USE, tapIndex: 7 };

  test("at the tap of a NIC without addresses of network and guest agent", () => {
    expect(listListenedNics([given()])).toEqual([
      {
        name: "a",
        podInterfaceName: "pod0a",
        tapName: expect.stringMatching(/^tap/) as string,
        tapIndex: 7,
        mac: given().device?.mac,
      },
    ]);
  });

  test.each([
    {
      name: "with addresses of CNI",
      facts: given({ attachment: { ...attachment, ips: ["10.0.0.1"] } }),
    },
    { name: "with a lease", facts: given({ remembered }) },
    {
      name: "with addresses on the pod NIC",
      facts: given({}, { links: { ...links, addresses: ["10.0.0.1/24"] } }),
    },
    { name: "that the guest agent reports", facts: given({}, { device: { guest: {} } }) },
    { name: "behind NAT", facts: given({ binding: { kind: "masquerade" } }) },
    { name: "without a tap of the kernel", facts: given({ binding: { kind: "vhostuser" } }) },
    { name: "that hooks create", facts: given({ binding: { kind: "hook" } }) },
    { name: "on the pod network", facts: given({ network: { name: "a", pod: {} } }) },
    {
      name: "in place of the pod network",
      facts: given({ network: { name: "a", multus: { networkName: "blue", default: true } } }),
    },
    {
      name: "that is being removed",
      facts: given({ attachment: { ...attachment, state: "Removing" } }),
    },
    { name: "that is not wired", facts: given({}, { links: { ...links, isWired: false } }) },
    { name: "whose tap is not open", facts: given({}, { links: { ...links, isTapOpen: false } }) },
  ])("not of a NIC $name", ({ facts }) => {
    expect(listListenedNics([facts])).toEqual([]);
  });
});
