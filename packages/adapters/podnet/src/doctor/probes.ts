// SPDX-License-Identifier: Apache-2.0
// Which questions are asked of a way, from which link, and with whose MAC. Nobody's MAC is said where it is not: a switch that
// hears one believes it.
import { parseIp } from "@patchbay/api";
import type { FrameTrace, HopName, ProbeName, WayLinks, WayTarget } from "@patchbay/core";
import type { ExaminedNic } from "@patchbay/core/ports";
import {
  connection,
  dhcpDiscover,
  enlarged,
  partial,
  ping,
  TO_ALL,
  whoHas,
  type Question,
} from "./frames.ts";

/** A question that is asked until it is answered, or often enough. */
export interface Probe {
  readonly probe: ProbeName;
  /** Hop from whose link it is sent. */
  readonly from: HopName;
  readonly question: Question;
  /** How often it is asked at most. */
  readonly times: number;
}

/** What is asked from. */
export interface Grounds {
  readonly nic: ExaminedNic;
  readonly links: WayLinks;
  readonly target?: WayTarget;
  /** A number that nobody can know, 32 bits, each time another. */
  readonly newId: () => number;
}

/** An answer takes a guest under emulation some milliseconds; a busy one may be asked again. */
const TIMES = 6;
/** A DHCP server may first look for 3 s whether an address is free. Source: dnsmasq(8), --no-ping */
const DHCP_TIMES = 17;
const LARGE_TIMES = 3;

function isBridged({ nic }: Pick<Grounds, "nic">): boolean {
  return nic.wiring.kind === "bridge";
}

/** From where the guest is asked, and by whom: an end that is there. */
function insideOf({
  links,
  nic,
}: Pick<Grounds, "nic" | "links">): { from: HopName; mac: string } | undefined {
  const { nodePeer, nodeBridge, podBridge, onNode } = links;
  if (nic.wiring.kind === "bridge" && onNode === "peer" && nodePeer !== undefined) {
    return { from: "nodePeer", mac: (nodeBridge ?? nodePeer).mac };
  }
  return podBridge === undefined ? undefined : { from: "podBridge", mac: podBridge.mac };
}

/** To the guest alone at first; one with another MAC than it should have hears what is for all. */
function inwardProbes(grounds: Grounds): readonly Probe[] {
  const [address] = grounds.nic.addresses;
  const inside = insideOf(grounds);
  if (address === undefined || inside === undefined || grounds.links.tap === undefined) return [];
  const { from, mac } = inside;
  const id = grounds.newId();
  const ask = (to: string, times: number): Probe => {
    return { probe: "inward", from, question: whoHas({ from: mac, to, id }, address), times };
  };
  return [ask(grounds.nic.wiring.mac, TIMES), ask(TO_ALL, TIMES)];
}

export function outsideMac({ nic, links }: Grounds): string {
  return nic.wiring.kind === "bridge" ? nic.wiring.mac : (links.podNic?.mac ?? nic.wiring.mac);
}

/** Behind the pod its own address asks: some answer nobody else. */
function senderOf({ links, nic }: Pick<Grounds, "nic" | "links">): string | undefined {
  if (nic.wiring.kind === "bridge") return undefined;
  const own = (links.podNic?.addresses ?? []).map((text) => text.split("/")[0] ?? "");
  return own.find((address) => parseIp(address)?.version === 4);
}

function outwardProbes(grounds: Grounds): readonly Probe[] {
  const { nic, links, target, newId } = grounds;
  if (links.podNic === undefined || nic.wiring.kind === "tap") return [];
  const from = "podNic";
  const to = { from: outsideMac(grounds), to: TO_ALL };
  const [own] = nic.addresses;
  return [
    ...(target === undefined
      ? []
      : [
          {
            ...({ probe: "outward" as const, from, times: TIMES } as const),
            question: whoHas({ ...to, id: newId() }, target.address, senderOf(grounds)),
          },
        ]),
    ...(own === undefined || !isBridged(grounds)
      ? []
      : [{ probe: "own", from, question: whoHas({ ...to, id: newId() }, own), times: 2 } as const]),
    ...(nic.asksDhcp
      ? [
          {
            ...({ probe: "dhcp", from, times: DHCP_TIMES } as const),
            question: dhcpDiscover({ from: to.from, id: newId() }),
          },
        ]
      : []),
  ];
}

/** What is asked first. */
export function firstProbes(grounds: Grounds): readonly Probe[] {
  return [...inwardProbes(grounds), ...outwardProbes(grounds)];
}

function mtuOf({ links, nic }: Grounds): number {
  return links.tap?.mtu ?? nic.wiring.mtu;
}

function pingProbe(grounds: Grounds, by: string): readonly Probe[] {
  const { nic, links, target, newId } = grounds;
  const source = isBridged(grounds) ? nic.addresses[0] : senderOf(grounds);
  if (source === undefined || target === undefined || links.podNic === undefined) return [];
  if ([source, target.address].some((text) => parseIp(text)?.version !== 4)) return [];
  const ends = { from: outsideMac(grounds), to: by, id: newId() };
  const question = ping(ends, [source, target.address]);
  const small = { probe: "echo", from: "podNic", question, times: LARGE_TIMES } as const;
  const other = (bytes?: number): Question =>
    ping({ ...ends, id: newId() }, [source, target.address], bytes);
  return [
    small,
    { ...small, probe: "echoLarge", question: other(mtuOf(grounds)) },
    { ...small, probe: "echoPartial", question: partial(other()) },
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

/** The guest's gateway, and the MAC that it has there: on the network, or in the pod. */
function guestsGateway(
  { nic, links, target }: Grounds,
  by: string | undefined,
): { readonly address: string | undefined; readonly mac: string | undefined } {
  if (isBridged({ nic })) return { address: target?.address, mac: by };
  const own = nic.wiring.kind === "masquerade" ? nic.wiring.ipv4?.gateway : undefined;
  return { address: own?.split("/")[0], mac: links.podBridge?.mac };
}

/** Ends of what goes to the guest by IPv4 as if from its gateway; undefined: no gateway is known that it could answer. */
function guestEnds(grounds: Grounds, by: string | undefined): GuestEnds | undefined {
  const inside = insideOf(grounds);
  const [guest] = grounds.nic.addresses;
  const { address, mac } = guestsGateway(grounds, by);
  if (inside === undefined || mac === undefined || !isIpv4(guest) || !isIpv4(address)) {
    return undefined;
  }
  return { from: inside.from, mac, addresses: [address, guest] };
}

/** Whether the guest answers IP too: a ping, or a refusal of a connection. */
function guestProbes(grounds: Grounds, by: string | undefined): readonly Probe[] {
  const ends = guestEnds(grounds, by);
  if (ends === undefined) return [];
  const { from, mac, addresses } = ends;
  const newEnds = (): { from: string; to: string; id: number } => {
    return { from: mac, to: grounds.nic.wiring.mac, id: grounds.newId() };
  };
  return [
    { probe: "ping", from, question: ping(newEnds(), addresses), times: LARGE_TIMES },
    { probe: "connect", from, question: connection(newEnds(), addresses), times: LARGE_TIMES },
  ];
}

/** Frames of a series. */
const SERIES = 10;

/** The pings of two series, to the guest and to the network, as far as ARP was answered. */
export function seriesProbes(grounds: Grounds, traces: readonly FrameTrace[]): readonly Probe[] {
  const answerOf = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.by[0];
  const by = answerOf("outward");
  const ofGuest = answerOf("inward") === undefined ? undefined : guestEnds(grounds, by);
  const toGuest = (): readonly Probe[] => {
    if (ofGuest === undefined) return [];
    const { from, mac, addresses } = ofGuest;
    const ends = { from: mac, to: grounds.nic.wiring.mac, id: grounds.newId() };
    return [{ probe: "ping", from, question: ping(ends, addresses), times: 1 }];
  };
  const toNetwork = (): readonly Probe[] =>
    by === undefined ? [] : pingProbe(grounds, by).slice(0, 1);
  return Array.from({ length: SERIES }, () => [...toGuest(), ...toNetwork()]).flat();
}

/** Address of IPv4 that the network sees. */
export function sourceOf(grounds: Pick<Grounds, "nic" | "links">): string | undefined {
  const all = isBridged(grounds) ? grounds.nic.addresses : [senderOf(grounds) ?? ""];
  return all.find((address) => parseIp(address)?.version === 4);
}

function large(probes: readonly Probe[], probe: ProbeName, mtu: number): readonly Probe[] {
  return probes.slice(0, 1).map(({ from, question }) => {
    return { probe, from, question: enlarged(question, mtu), times: LARGE_TIMES };
  });
}

/** What is asked of who has answered: whether more than ARP passes, and whether large frames do. */
export function laterProbes(grounds: Grounds, traces: readonly FrameTrace[]): readonly Probe[] {
  const mtu = mtuOf(grounds);
  const answerOf = (probe: ProbeName): string | undefined =>
    traces.find((trace) => trace.probe === probe)?.by[0];
  const by = answerOf("outward");
  const outward = outwardProbes(grounds).filter(({ probe }) => probe === "outward");
  return [
    ...(answerOf("inward") === undefined
      ? []
      : [...large(inwardProbes(grounds), "inwardLarge", mtu), ...guestProbes(grounds, by)]),
    ...(by === undefined
      ? []
      : [...pingProbe(grounds, by), ...large(outward, "outwardLarge", mtu)]),
  ];
}
