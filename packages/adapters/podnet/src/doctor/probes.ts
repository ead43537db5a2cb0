// SPDX-License-Identifier: Apache-2.0
// Probes of a NIC's path, each with its sending link and source MAC. The MAC must belong to the side from which the
// probe is sent, because bridges learn the MAC's port from the probe.
import { parseIp } from "@patchbay/api/values";
import type { FrameTrace, HopName, ProbeName, PathLinks, ProbeTarget } from "@patchbay/core/doctor";
import type { ExaminedNic } from "@patchbay/core/interfaces";
import {
  buildTcpProbe,
  buildDhcpDiscover,
  padToMtu,
  withoutChecksum,
  buildPing,
  BROADCAST_MAC,
  buildAddressProbe,
  type ProbeFrame,
} from "./frames.ts";

export interface Probe {
  readonly probe: ProbeName;
  readonly from: HopName;
  readonly frame: ProbeFrame;
  readonly attempts: number;
}

export interface ProbeFacts {
  readonly nic: ExaminedNic;
  readonly links: PathLinks;
  readonly target?: ProbeTarget;
  /** Returns an unpredictable 32-bit number. */
  readonly newId: () => number;
}

/** Number of attempts per probe, each EXCHANGE_MS long. A busy guest may miss some probes. */
const DEFAULT_ATTEMPTS = 6;
/** Number of attempts to find a DHCP server. They take 3.4 s, because a server may ping for 3 s before an offer. Source: dnsmasq(8) */
const DHCP_ATTEMPTS = 17;
const LARGE_ATTEMPTS = 3;

function isBridged({ nic }: Pick<ProbeFacts, "nic">): boolean {
  return nic.wiring.kind === "bridge";
}

function findInsideEnd({
  links,
  nic,
}: Pick<ProbeFacts, "nic" | "links">): { from: HopName; mac: string } | undefined {
  const { nodePeer, nodeBridge, podBridge, onNode } = links;
  if (nic.wiring.kind === "bridge" && onNode === "peer" && nodePeer !== undefined) {
    return { from: "nodePeer", mac: (nodeBridge ?? nodePeer).mac };
  }
  return podBridge === undefined ? undefined : { from: "podBridge", mac: podBridge.mac };
}

/** Builds probes to the guest: one to the expected MAC, and a broadcast in case the guest has another MAC. */
function buildInwardProbes(facts: ProbeFacts): readonly Probe[] {
  const [address] = facts.nic.addresses;
  const insideEnd = findInsideEnd(facts);
  if (address === undefined || insideEnd === undefined || facts.links.tap === undefined) return [];
  const { from, mac } = insideEnd;
  const id = facts.newId();
  const probeTo = (to: string, attempts: number): Probe => {
    return {
      probe: "inward",
      from,
      frame: buildAddressProbe({ from: mac, to, id }, address),
      attempts,
    };
  };
  return [
    probeTo(facts.nic.wiring.mac, DEFAULT_ATTEMPTS),
    probeTo(BROADCAST_MAC, DEFAULT_ATTEMPTS),
  ];
}

export function findOutsideMac({ nic, links }: ProbeFacts): string {
  return nic.wiring.kind === "bridge" ? nic.wiring.mac : (links.podNic?.mac ?? nic.wiring.mac);
}

/** Returns the pod's IPv4 address, the sender of ARP probes: some hosts ignore 0.0.0.0. Undefined if the NIC is bridged to the guest. */
function findSenderIpv4({ links, nic }: Pick<ProbeFacts, "nic" | "links">): string | undefined {
  if (nic.wiring.kind === "bridge") return undefined;
  const addresses = (links.podNic?.addresses ?? []).map((text) => text.split("/")[0] ?? "");
  return addresses.find((address) => parseIp(address)?.version === 4);
}

function buildOutwardProbes(facts: ProbeFacts): readonly Probe[] {
  const { nic, links, target, newId } = facts;
  if (links.podNic === undefined || nic.wiring.kind === "tap") return [];
  const from = "podNic";
  const ends = { from: findOutsideMac(facts), to: BROADCAST_MAC };
  const [guestAddress] = nic.addresses;
  const buildOutward = (address: string): Probe => {
    const frame = buildAddressProbe({ ...ends, id: newId() }, address, findSenderIpv4(facts));
    return { probe: "outward", from, attempts: DEFAULT_ATTEMPTS, frame };
  };
  return [
    // Sends the probe to the target twice per round, because a link may lose half of the frames.
    ...(target === undefined ? [] : [buildOutward(target.address), buildOutward(target.address)]),
    ...(guestAddress === undefined || !isBridged(facts)
      ? []
      : [
          {
            probe: "own",
            from,
            frame: buildAddressProbe({ ...ends, id: newId() }, guestAddress),
            attempts: 2,
          } as const,
        ]),
    ...(nic.testsDhcp
      ? [
          {
            ...({ probe: "dhcp", from, attempts: DHCP_ATTEMPTS } as const),
            frame: buildDhcpDiscover({ from: ends.from, id: newId() }),
          },
        ]
      : []),
  ];
}

export function buildFirstProbes(facts: ProbeFacts): readonly Probe[] {
  return [...buildInwardProbes(facts), ...buildOutwardProbes(facts)];
}

function findMtu({ links, nic }: ProbeFacts): number {
  return links.tap?.mtu ?? nic.wiring.mtu;
}

function buildPingProbes(facts: ProbeFacts, gatewayMac: string): readonly Probe[] {
  const { nic, links, target, newId } = facts;
  const source = isBridged(facts) ? nic.addresses[0] : findSenderIpv4(facts);
  if (source === undefined || target === undefined || links.podNic === undefined) return [];
  if ([source, target.address].some((text) => parseIp(text)?.version !== 4)) return [];
  const ends = { from: findOutsideMac(facts), to: gatewayMac, id: newId() };
  const frame = buildPing(ends, [source, target.address]);
  const smallPing = { probe: "echo", from: "podNic", frame, attempts: LARGE_ATTEMPTS } as const;
  const newPing = (bytes?: number): ProbeFrame =>
    buildPing({ ...ends, id: newId() }, [source, target.address], bytes);
  return [
    smallPing,
    { ...smallPing, probe: "echoLarge", frame: newPing(findMtu(facts)) },
    { ...smallPing, probe: "echoPartial", frame: withoutChecksum(newPing()) },
  ];
}

interface GuestEnds {
  readonly from: HopName;
  readonly mac: string;
  readonly addresses: readonly [string, string];
}

function isIpv4(address: string | undefined): address is string {
  return address !== undefined && parseIp(address)?.version === 4;
}

function findGuestGateway(
  { nic, links, target }: ProbeFacts,
  gatewayMac: string | undefined,
): { readonly address: string | undefined; readonly mac: string | undefined } {
  if (isBridged({ nic })) return { address: target?.address, mac: gatewayMac };
  const podGateway = nic.wiring.kind === "masquerade" ? nic.wiring.ipv4?.gateway : undefined;
  return { address: podGateway?.split("/")[0], mac: links.podBridge?.mac };
}

/** Returns what IPv4 probes to the guest need: the link, the gateway's MAC and both addresses. Undefined if one is unknown or not IPv4. */
function findGuestEnds(facts: ProbeFacts, gatewayMac: string | undefined): GuestEnds | undefined {
  const insideEnd = findInsideEnd(facts);
  const [guest] = facts.nic.addresses;
  const { address, mac } = findGuestGateway(facts, gatewayMac);
  if (insideEnd === undefined || mac === undefined || !isIpv4(guest) || !isIpv4(address)) {
    return undefined;
  }
  return { from: insideEnd.from, mac, addresses: [address, guest] };
}

/** Address that no host has, in a network other than the guest's. Source: RFC 5737, TEST-NET-1 */
const OTHER_NETWORK_ADDRESS = "192.0.2.1";

function buildGuestProbes(facts: ProbeFacts, gatewayMac: string | undefined): readonly Probe[] {
  const ends = findGuestEnds(facts, gatewayMac);
  if (ends === undefined) return [];
  const { from, mac, addresses } = ends;
  const newEnds = (): { from: string; to: string; id: number } => {
    return { from: mac, to: facts.nic.wiring.mac, id: facts.newId() };
  };
  return [
    { probe: "ping", from, frame: buildPing(newEnds(), addresses), attempts: LARGE_ATTEMPTS },
    {
      probe: "connect",
      from,
      frame: buildTcpProbe(newEnds(), addresses),
      attempts: LARGE_ATTEMPTS,
    },
    {
      probe: "beyond",
      from,
      frame: buildPing(newEnds(), [OTHER_NETWORK_ADDRESS, addresses[1]]),
      attempts: LARGE_ATTEMPTS,
    },
  ];
}

/**
 * Number of pings of a series in each direction. A link that loses half of them almost never passes all. A port captures at most
 * 64 frames, which is more than the 52 frames of a series with replies.
 */
const SERIES_LENGTH = 13;
/** Number of ARP requests in each direction before a series. Even if the link loses half of the frames, at least one usually passes. */
const INTRODUCTIONS = 6;

/** Returns the MAC of the only host that answered. Returns undefined if no host or several hosts answered. */
function findOnlyAnswer(traces: readonly FrameTrace[], probe: ProbeName): string | undefined {
  const macs = traces.find((trace) => trace.probe === probe)?.repliedFrom ?? [];
  return macs.length === 1 ? macs[0] : undefined;
}

/**
 * Builds ARP requests by which the guest and its gateway learn each other's MAC before a series of pings. Otherwise, a lossy link could
 * drop the ARP request with which a host resolves the MAC itself. The host would repeat its request only after a second, and might answer
 * no ping of the series. Builds none if several hosts answer for an address, because the guest or the gateway could learn a wrong MAC.
 */
function buildIntroductions(
  facts: ProbeFacts,
  traces: readonly FrameTrace[],
  ends: GuestEnds | undefined,
): readonly Probe[] {
  const gatewayMac = findOnlyAnswer(traces, "outward");
  const guestMac = findOnlyAnswer(traces, "inward");
  const isUnique = !traces.some(
    ({ probe, repliedFrom }) => probe === "own" && repliedFrom.length > 0,
  );
  if (ends === undefined || guestMac === undefined || !isUnique) return [];
  const [gateway, guest] = ends.addresses;
  const build = (
    from: string,
    to: string,
    [sender, address]: readonly [string, string],
  ): ProbeFrame => buildAddressProbe({ from, to, id: facts.newId() }, address, sender);
  const toGuest = {
    probe: "inward",
    from: ends.from,
    attempts: 1,
    frame: build(ends.mac, guestMac, [gateway, guest]),
  } as const;
  if (!isBridged(facts)) return Array.from({ length: INTRODUCTIONS }, () => toGuest);
  if (gatewayMac === undefined || facts.links.podNic === undefined) return [];
  const toGateway = {
    probe: "outward",
    from: "podNic",
    attempts: 1,
    frame: build(guestMac, gatewayMac, [guest, gateway]),
  } as const;
  return Array.from({ length: INTRODUCTIONS }, () => [toGuest, toGateway]).flat();
}

export function buildSeriesProbes(
  facts: ProbeFacts,
  traces: readonly FrameTrace[],
): readonly Probe[] {
  const findAnswer = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.repliedFrom[0];
  const gatewayMac = findAnswer("outward");
  const guestEndsIfKnown =
    findAnswer("inward") === undefined ? undefined : findGuestEnds(facts, gatewayMac);
  const toGuest = (): readonly Probe[] => {
    if (guestEndsIfKnown === undefined) return [];
    const { from, mac, addresses } = guestEndsIfKnown;
    const ends = { from: mac, to: facts.nic.wiring.mac, id: facts.newId() };
    return [{ probe: "ping", from, frame: buildPing(ends, addresses), attempts: 1 }];
  };
  const toNetwork = (): readonly Probe[] =>
    gatewayMac === undefined ? [] : buildPingProbes(facts, gatewayMac).slice(0, 1);
  const pings = Array.from({ length: SERIES_LENGTH }, () => [...toGuest(), ...toNetwork()]).flat();
  return pings.length === 0
    ? []
    : [...buildIntroductions(facts, traces, guestEndsIfKnown), ...pings];
}

/** Builds a TCP probe from the gateway to the pod's address, at a port that the pod forwards to the guest. */
function buildThroughProbes(facts: ProbeFacts, gatewayMac: string): readonly Probe[] {
  const { nic, links, target, newId } = facts;
  const { podNic, nodePeer, onNode } = links;
  const podAddress = findSenderIpv4(facts);
  if (nic.wiring.kind !== "masquerade" || nic.wiring.ipv4 === undefined) return [];
  if (podNic === undefined || nodePeer === undefined || onNode !== "peer") return [];
  if (podAddress === undefined || !isIpv4(target?.address)) return [];
  const { ports } = nic.wiring;
  const port = ports.find(({ protocol }) => protocol === "tcp")?.first;
  if (ports.length > 0 && port === undefined) return [];
  const ends = { from: gatewayMac, to: podNic.mac, id: newId() };
  const frame = buildTcpProbe(ends, [target.address, podAddress], port);
  return [{ probe: "through", from: "nodePeer", attempts: LARGE_ATTEMPTS, frame }];
}

export function findSourceIpv4(facts: Pick<ProbeFacts, "nic" | "links">): string | undefined {
  const addresses = isBridged(facts) ? facts.nic.addresses : [findSenderIpv4(facts) ?? ""];
  return addresses.find((address) => parseIp(address)?.version === 4);
}

function toLargeProbe(probes: readonly Probe[], probe: ProbeName, mtu: number): readonly Probe[] {
  return probes.slice(0, 1).map(({ from, frame }) => {
    return { probe, from, frame: padToMtu(frame, mtu), attempts: LARGE_ATTEMPTS };
  });
}

export function buildLaterProbes(
  facts: ProbeFacts,
  traces: readonly FrameTrace[],
): readonly Probe[] {
  const mtu = findMtu(facts);
  const findAnswer = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.repliedFrom[0];
  const gatewayMac = findAnswer("outward");
  const outward = buildOutwardProbes(facts).filter(({ probe }) => probe === "outward");
  const probes = [
    ...(findAnswer("inward") === undefined
      ? []
      : [
          ...toLargeProbe(buildInwardProbes(facts), "inwardLarge", mtu),
          ...buildGuestProbes(facts, gatewayMac),
        ]),
    ...(gatewayMac === undefined
      ? []
      : [
          ...buildPingProbes(facts, gatewayMac),
          ...toLargeProbe(outward, "outwardLarge", mtu),
          ...buildThroughProbes(facts, gatewayMac),
        ]),
  ];
  // Sends each probe twice per round, because few rounds remain, and a link may lose half of the frames.
  return [...probes, ...probes];
}
