// SPDX-License-Identifier: Apache-2.0
// Probes of a NIC's path, each with the link and MAC to send it from. A MAC is used only on its own side, because
// switches learn it.
import { parseIp } from "@patchbay/api/values";
import type { FrameTrace, HopName, ProbeName, PathLinks, ProbeTarget } from "@patchbay/core/doctor";
import type { ExaminedNic } from "@patchbay/core/interfaces";
import {
  connection,
  dhcpDiscover,
  padToMtu,
  withoutChecksum,
  ping,
  BROADCAST_MAC,
  resolve,
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
  /** Returns 32 unpredictable bits. */
  readonly newId: () => number;
}

/** A guest under emulation answers after some milliseconds; a busy one may need several attempts. */
const ATTEMPTS = 6;
/** A DHCP server may first test for 3 s whether an address is free. Source: dnsmasq(8), --no-ping */
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

/** A guest with another MAC than the wanted one receives only the broadcast. */
function inwardProbes(grounds: ProbeFacts): readonly Probe[] {
  const [address] = grounds.nic.addresses;
  const inside = findInsideEnd(grounds);
  if (address === undefined || inside === undefined || grounds.links.tap === undefined) return [];
  const { from, mac } = inside;
  const id = grounds.newId();
  const probeTo = (to: string, attempts: number): Probe => {
    return {
      probe: "inward",
      from,
      frame: resolve({ from: mac, to, id }, address),
      attempts,
    };
  };
  return [probeTo(grounds.nic.wiring.mac, ATTEMPTS), probeTo(BROADCAST_MAC, ATTEMPTS)];
}

export function outsideMac({ nic, links }: ProbeFacts): string {
  return nic.wiring.kind === "bridge" ? nic.wiring.mac : (links.podNic?.mac ?? nic.wiring.mac);
}

/** With masquerading the pod's own address is the sender, because some hosts answer no other. */
function findSenderIpv4({ links, nic }: Pick<ProbeFacts, "nic" | "links">): string | undefined {
  if (nic.wiring.kind === "bridge") return undefined;
  const own = (links.podNic?.addresses ?? []).map((text) => text.split("/")[0] ?? "");
  return own.find((address) => parseIp(address)?.version === 4);
}

function outwardProbes(grounds: ProbeFacts): readonly Probe[] {
  const { nic, links, target, newId } = grounds;
  if (links.podNic === undefined || nic.wiring.kind === "tap") return [];
  const from = "podNic";
  const to = { from: outsideMac(grounds), to: BROADCAST_MAC };
  const [own] = nic.addresses;
  return [
    ...(target === undefined
      ? []
      : [
          {
            ...({ probe: "outward" as const, from, attempts: ATTEMPTS } as const),
            frame: resolve({ ...to, id: newId() }, target.address, findSenderIpv4(grounds)),
          },
        ]),
    ...(own === undefined || !isBridged(grounds)
      ? []
      : [
          { probe: "own", from, frame: resolve({ ...to, id: newId() }, own), attempts: 2 } as const,
        ]),
    ...(nic.testsDhcp
      ? [
          {
            ...({ probe: "dhcp", from, attempts: DHCP_ATTEMPTS } as const),
            frame: dhcpDiscover({ from: to.from, id: newId() }),
          },
        ]
      : []),
  ];
}

export function firstProbes(grounds: ProbeFacts): readonly Probe[] {
  return [...inwardProbes(grounds), ...outwardProbes(grounds)];
}

function findMtu({ links, nic }: ProbeFacts): number {
  return links.tap?.mtu ?? nic.wiring.mtu;
}

function pingProbe(grounds: ProbeFacts, by: string): readonly Probe[] {
  const { nic, links, target, newId } = grounds;
  const source = isBridged(grounds) ? nic.addresses[0] : findSenderIpv4(grounds);
  if (source === undefined || target === undefined || links.podNic === undefined) return [];
  if ([source, target.address].some((text) => parseIp(text)?.version !== 4)) return [];
  const ends = { from: outsideMac(grounds), to: by, id: newId() };
  const frame = ping(ends, [source, target.address]);
  const small = { probe: "echo", from: "podNic", frame, attempts: LARGE_ATTEMPTS } as const;
  const other = (bytes?: number): ProbeFrame =>
    ping({ ...ends, id: newId() }, [source, target.address], bytes);
  return [
    small,
    { ...small, probe: "echoLarge", frame: other(findMtu(grounds)) },
    { ...small, probe: "echoPartial", frame: withoutChecksum(other()) },
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
  by: string | undefined,
): { readonly address: string | undefined; readonly mac: string | undefined } {
  if (isBridged({ nic })) return { address: target?.address, mac: by };
  const own = nic.wiring.kind === "masquerade" ? nic.wiring.ipv4?.gateway : undefined;
  return { address: own?.split("/")[0], mac: links.podBridge?.mac };
}

/** Ends of IPv4 probes that appear to come from the guest's gateway; undefined if no gateway is known. */
function guestEnds(grounds: ProbeFacts, by: string | undefined): GuestEnds | undefined {
  const inside = findInsideEnd(grounds);
  const [guest] = grounds.nic.addresses;
  const { address, mac } = findGuestGateway(grounds, by);
  if (inside === undefined || mac === undefined || !isIpv4(guest) || !isIpv4(address)) {
    return undefined;
  }
  return { from: inside.from, mac, addresses: [address, guest] };
}

function guestProbes(grounds: ProbeFacts, by: string | undefined): readonly Probe[] {
  const ends = guestEnds(grounds, by);
  if (ends === undefined) return [];
  const { from, mac, addresses } = ends;
  const newEnds = (): { from: string; to: string; id: number } => {
    return { from: mac, to: grounds.nic.wiring.mac, id: grounds.newId() };
  };
  return [
    { probe: "ping", from, frame: ping(newEnds(), addresses), attempts: LARGE_ATTEMPTS },
    { probe: "connect", from, frame: connection(newEnds(), addresses), attempts: LARGE_ATTEMPTS },
  ];
}

const SERIES_LENGTH = 10;

export function seriesProbes(grounds: ProbeFacts, traces: readonly FrameTrace[]): readonly Probe[] {
  const findAnswer = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.repliedFrom[0];
  const by = findAnswer("outward");
  const ofGuest = findAnswer("inward") === undefined ? undefined : guestEnds(grounds, by);
  const toGuest = (): readonly Probe[] => {
    if (ofGuest === undefined) return [];
    const { from, mac, addresses } = ofGuest;
    const ends = { from: mac, to: grounds.nic.wiring.mac, id: grounds.newId() };
    return [{ probe: "ping", from, frame: ping(ends, addresses), attempts: 1 }];
  };
  const toNetwork = (): readonly Probe[] =>
    by === undefined ? [] : pingProbe(grounds, by).slice(0, 1);
  return Array.from({ length: SERIES_LENGTH }, () => [...toGuest(), ...toNetwork()]).flat();
}

export function findSourceIpv4(grounds: Pick<ProbeFacts, "nic" | "links">): string | undefined {
  const all = isBridged(grounds) ? grounds.nic.addresses : [findSenderIpv4(grounds) ?? ""];
  return all.find((address) => parseIp(address)?.version === 4);
}

function large(probes: readonly Probe[], probe: ProbeName, mtu: number): readonly Probe[] {
  return probes.slice(0, 1).map(({ from, frame }) => {
    return { probe, from, frame: padToMtu(frame, mtu), attempts: LARGE_ATTEMPTS };
  });
}

export function laterProbes(grounds: ProbeFacts, traces: readonly FrameTrace[]): readonly Probe[] {
  const mtu = findMtu(grounds);
  const findAnswer = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.repliedFrom[0];
  const by = findAnswer("outward");
  const outward = outwardProbes(grounds).filter(({ probe }) => probe === "outward");
  return [
    ...(findAnswer("inward") === undefined
      ? []
      : [...large(inwardProbes(grounds), "inwardLarge", mtu), ...guestProbes(grounds, by)]),
    ...(by === undefined
      ? []
      : [...pingProbe(grounds, by), ...large(outward, "outwardLarge", mtu)]),
  ];
}
