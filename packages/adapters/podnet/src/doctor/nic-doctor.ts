// SPDX-License-Identifier: Apache-2.0
// Looks at the way of a NIC, and asks along it. What is heard is thrown away but for where it was heard, and whose MAC answered.
import { randomBytes } from "node:crypto";
import { isWithin, networkOf, parseIp } from "@patchbay/api";
import type {
  FixedEntry,
  FrameTrace,
  HopName,
  LossCount,
  ProbeName,
  RefusedFrames,
  SeenWay,
  WayLinks,
  WayTarget,
} from "@patchbay/core";
import type { Clock, ExaminedNic, HeardFrames, NetnsHandle, NicDoctor } from "@patchbay/core/ports";
import { askNic } from "../netlink/ask.ts";
import { sayErrno } from "../netlink/errno.ts";
import { macOf } from "../netlink/rtnetlink.ts";
import { createStateReader, type StateSources } from "../netlink/netns-state.ts";
import { answersNameOf } from "../nft/answers.ts";
import { parseDhcpRequests } from "../nft/dhcp-requests.ts";
import { guardNameOf } from "../nft/guard.ts";
import { natNameOf } from "../nft/nat.ts";
import { parseRefusals, type Refusal } from "../nft/refusals.ts";
import { hasTableNamed, type TableName } from "../nft/table.ts";
import { runIn } from "../run-in.ts";
import { isGuarded } from "../wiring/rules.ts";
import type { NetnsState } from "../wiring/wirer.ts";
import { pingThroughNode } from "./forwarded.ts";
import { isArp, passes } from "./frames.ts";
import { lacksIn } from "./lacks.ts";
import {
  firstProbes,
  laterProbes,
  outsideMac,
  seriesProbes,
  sourceOf,
  type Grounds,
  type Probe,
} from "./probes.ts";
import { addSeries, countSeries, isWholeSeries } from "./series.ts";
import {
  readEntries,
  readFilters,
  readNeighbors,
  readNodeRoute,
  translatesFor,
  type NodeRoute,
  isRoutedTo,
} from "./surroundings.ts";
import { lookAtWay } from "./way-links.ts";

/** How long one hearing is, milliseconds. */
const HEARING_MS = 200;
/** Sent so often and not answered, a frame is lost. */
const TIMES_MIN = 2;
/** What is left to the later questions, and to what follows those, milliseconds. */
const LATER_MS = 3 * HEARING_MS;
/** How long one series listens, milliseconds, and how many series there are at most. */
const [SERIES_MS, SERIES_TIMES] = [300, 2];
/** What a ping through the node takes at most, milliseconds. */
const FORWARDED_MS = 2 * HEARING_MS;
const AFTER_MS = SERIES_TIMES * SERIES_MS + FORWARDED_MS;
/** Ports of the node's bridge that are listened at. */
const UPLINKS_MAX = 4;

/** What looking and asking need. */
export interface DoctorSources extends StateSources {
  readonly clock: Pick<Clock, "monotonicMs">;
}

/** A link that is listened at. */
interface Ear {
  readonly hop: HopName;
  readonly netns: NetnsHandle;
  readonly link: string;
}

function earsOf(links: WayLinks, { pod, node }: ExaminedNic): readonly Ear[] {
  const hops = ["tap", "podBridge", "podNic", "nodePeer", "nodeBridge"] as const;
  const own = hops.flatMap((hop): readonly Ear[] => {
    const link = links[hop]?.name;
    const netns = hop.startsWith("node") ? node : pod;
    return link === undefined ? [] : [{ hop, netns, link }];
  });
  const uplinks = links.uplinks
    .slice(0, UPLINKS_MAX)
    .map(({ name }) => ({ hop: "uplink", netns: node, link: name }) as const);
  return [...own, ...uplinks];
}

/** What is known of one question so far. */
interface Trail {
  readonly asked: Set<HopName>;
  readonly answered: Set<HopName>;
  readonly by: Set<string>;
  readonly to: Set<string>;
  refused: string | undefined;
  /** How often it was asked. */
  times: number;
}

/** Of each probe; several that ask the same thing have one. */
type Trails = Map<ProbeName, Trail>;

function trailOf(trails: Trails, probe: ProbeName): Trail {
  const hops = { asked: new Set<HopName>(), answered: new Set<HopName>() };
  const made = { ...hops, by: new Set<string>(), to: new Set<string>() };
  const trail = trails.get(probe) ?? { ...made, refused: undefined, times: 0 };
  trails.set(probe, trail);
  return trail;
}

/** Source: RFC 826, ar$sha */
const ARP_SENDER_AT = 22;

/** The MAC that answered; of a gateway the one that it declares, since a virtual router sends from another. */
function answererOf(probe: ProbeName, frame: Uint8Array): string {
  const at = probe === "outward" && isArp(frame) ? ARP_SENDER_AT : 6;
  return macOf(frame.subarray(at, at + 6));
}

function note(
  trails: Trails,
  { probes, ears }: { readonly probes: readonly Probe[]; readonly ears: readonly Ear[] },
  heard: HeardFrames,
): void {
  for (const { port, frame } of heard.frames) {
    const hop = ears[port]?.hop;
    if (hop === undefined) continue;
    for (const { probe, question } of probes) {
      const trail = trailOf(trails, probe);
      if (passes(frame, question.asked)) trail.asked.add(hop);
      if (!passes(frame, question.answered)) continue;
      trail.answered.add(hop);
      trail.by.add(answererOf(probe, frame));
      trail.to.add(macOf(frame.subarray(0, 6)));
    }
  }
  for (const [at, { probe }] of probes.entries()) {
    const errno = heard.unsent[at] ?? 0;
    const trail = trailOf(trails, probe);
    trail.times += 1;
    if (errno !== 0) trail.refused = sayErrno(errno);
  }
}

/** One frame that is lost says nothing: where there was no time for another, nothing is known. */
function traceOf(probe: ProbeName, trail: Trail): readonly FrameTrace[] {
  const { asked, answered, by, to, refused, times } = trail;
  if (answered.size === 0 && times < TIMES_MIN) return [];
  return [
    {
      probe,
      asked: [...asked],
      answered: [...answered],
      by: [...by],
      to: [...to],
      ...(refused === undefined ? {} : { refused }),
    },
  ];
}

/** Asks until all have answered, or each was asked often enough. */
async function ask(
  { netlink, clock }: DoctorSources,
  ears: readonly Ear[],
  { probes, untilMs }: { readonly probes: readonly Probe[]; readonly untilMs: number },
): Promise<readonly FrameTrace[]> {
  const trails: Trails = new Map();
  for (let round = 1; clock.monotonicMs() + HEARING_MS <= untilMs; round += 1) {
    const open = probes.filter(
      ({ probe, times }) => round <= times && trailOf(trails, probe).answered.size === 0,
    );
    if (open.length === 0) break;
    const sends = open.map(({ from, question }) => {
      const port = ears.findIndex(({ hop }) => hop === from);
      const { frame, checksum } = question;
      return { port, frame, ...(checksum !== undefined && { checksum }) };
    });
    const tests = probes.flatMap(({ question }) => [question.answered, question.asked]);
    const heard = await netlink.exchangeFrames({ ports: ears, sends, tests, ms: HEARING_MS });
    note(trails, { probes: open, ears }, heard);
  }
  return [...trails].flatMap(([probe, trail]) => traceOf(probe, trail));
}

function addressOf(text: string): string {
  return text.split("/")[0] ?? text;
}

/** The node's own address on the guest's network, where its bridge has one. */
function nodeAddress({ addresses }: ExaminedNic, { nodeBridge }: WayLinks): string | undefined {
  const guests = addresses.flatMap((address) => parseIp(address) ?? []);
  return nodeBridge?.addresses
    .filter((own) => {
      const subnet = parseIp(own);
      return subnet !== undefined && guests.some((guest) => isWithin(guest, networkOf(subnet)));
    })
    .map(addressOf)[0];
}

/** The default gateway of the pod NIC, where CNI has left its routes on it. */
async function podGateway(
  { netlink }: StateSources,
  { pod, wiring }: ExaminedNic,
): Promise<string | undefined> {
  const given = await askNic(netlink, pod, wiring.podInterfaceName);
  return given?.routes.find(({ destination }) => destination === "0.0.0.0/0")?.gateway;
}

function isOfNode({ nodeBridge, nodePeer }: WayLinks, address: string): boolean {
  return [nodeBridge, nodePeer].some((link) =>
    (link?.addresses ?? []).some((own) => addressOf(own) === address),
  );
}

/** An address of a guest's own is not known: then DHCP alone is asked for, and may take all the time. */
function laterShare({ addresses }: ExaminedNic, reservedMs: number): number {
  return addresses.length === 0 ? 0 : reservedMs;
}

/** Who is asked, and where that is, as far as it can be seen. */
async function targetOf(
  sources: StateSources,
  nic: ExaminedNic,
  links: WayLinks,
): Promise<WayTarget | undefined> {
  const { address: known, isGuest = false } = nic.target ?? {};
  const gateway = isGuest ? undefined : known;
  const router = gateway ?? (await podGateway(sources, nic));
  if (router !== undefined) {
    return { address: router, at: isOfNode(links, router) ? "bridge" : "beyond", isDefault: true };
  }
  const node = nodeAddress(nic, links);
  if (node !== undefined) return { address: node, at: "bridge" };
  if (known === undefined) return undefined;
  return { address: known, at: links.onNode === "peer" ? "port" : "beyond", isGuest: true };
}

/** The same; a gateway beyond a bridge without uplinks must be the node's own where the node translates for the guest. */
async function findTarget(
  sources: StateSources,
  nic: ExaminedNic,
  links: WayLinks,
): Promise<WayTarget | undefined> {
  const target = await targetOf(sources, nic, links);
  const source = sourceOf({ nic, links });
  const isLocal = links.nodeBridge !== undefined && links.uplinks.length === 0;
  if (target?.at !== "beyond" || !isLocal || source === undefined) return target;
  const isNodes = await translatesFor(sources.runner, nic.node, source);
  return isNodes ? { ...target, at: "bridge", isMissing: true } : target;
}

/** What the guest was refused; nothing where its guard is not there as it was made. */
async function listRefusals(
  { runner }: StateSources,
  { pod, wiring }: ExaminedNic,
  state: NetnsState,
): Promise<readonly Refusal[]> {
  if (wiring.guard === undefined || !isGuarded(state, wiring)) return [];
  const { family, name } = guardNameOf(wiring.tapName);
  const args = ["-p", "list", "table", family, name];
  return parseRefusals(await runIn(runner, pod, { program: "nft", args }));
}

/** The table that counts the guest's DHCP requests; undefined if the pod does not serve DHCP on this NIC. */
function requestsTableOf(wiring: ExaminedNic["wiring"]): TableName | undefined {
  if (wiring.kind === "masquerade") return natNameOf(wiring.podInterfaceName);
  const isAnswered = wiring.kind === "bridge" && wiring.answers !== undefined;
  return isAnswered ? answersNameOf(wiring.bridgeName) : undefined;
}

async function countDhcpRequests(
  { runner }: StateSources,
  { pod, wiring }: ExaminedNic,
  { tables }: NetnsState,
): Promise<Pick<SeenWay, "dhcpRequests">> {
  const name = requestsTableOf(wiring);
  if (name === undefined || !hasTableNamed(tables, name)) return {};
  const args = ["-p", "list", "table", name.family, name.name];
  return { dhcpRequests: parseDhcpRequests(await runIn(runner, pod, { program: "nft", args })) };
}

function refusedSince(
  before: readonly Refusal[],
  after: readonly Refusal[],
): readonly RefusedFrames[] {
  return after.map((refusal) => {
    const earlier = before.find(({ what }) => what === refusal.what)?.frames ?? 0;
    return { ...refusal, lately: Math.max(0, refusal.frames - earlier) };
  });
}

/** Sends a series, and a second one where frames of the first were lost. */
async function countLosses(
  { netlink, clock }: DoctorSources,
  ears: readonly Ear[],
  next: { readonly probes: () => readonly Probe[]; readonly untilMs: number },
): Promise<readonly LossCount[]> {
  let counted: readonly LossCount[] = [];
  for (let round = 1; round <= SERIES_TIMES; round += 1) {
    const probes = next.probes();
    if (probes.length === 0 || clock.monotonicMs() + SERIES_MS > next.untilMs) break;
    const heard = await netlink.exchangeFrames({
      ports: ears,
      sends: probes.map(({ from, question: { frame } }) => {
        return { port: ears.findIndex(({ hop }) => hop === from), frame };
      }),
      tests: probes.flatMap(({ question }) => [question.answered, question.asked]),
      ms: SERIES_MS,
    });
    const hops = ears.map(({ hop }) => hop);
    const counts = countSeries(probes, hops, heard);
    counted = round === 1 ? counts : addSeries(counted, counts);
    if (counts.every(isWholeSeries)) break;
  }
  return counted;
}

/** Whether an answer came back to where its question was sent. */
function isWhole({ probe, answered }: FrameTrace): boolean {
  const isOfGuest = ["inward", "inwardLarge", "ping", "connect"].includes(probe);
  const ends: readonly HopName[] = isOfGuest ? ["nodePeer", "podBridge"] : ["podNic"];
  return ends.some((hop) => answered.includes(hop));
}

/** To these nobody need answer. */
const UNANSWERED: readonly ProbeName[] = ["own", "dhcp", "outwardLarge"];

/**
 * What is listed, or nothing: these lists only sharpen a report. A guest can fill the forwarding table of a bridge with more
 * entries than one answer of the kernel may have.
 */
async function hintsOf<T>(listing: Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await listing;
  } catch {
    return [];
  }
}

/** Whether the entry leads the guest's MAC, or the gateway's, to another port than that of the path. */
function leadsAway({ at, mac, port }: FixedEntry, grounds: Grounds): boolean {
  const { podNic, nodePeer, uplinks } = grounds.links;
  const isGuests = mac === outsideMac(grounds);
  // Entries of the guest in the pod are compared with what wiring makes.
  if (at === "pod") return !isGuests && port !== podNic?.name;
  if (isGuests) return port !== nodePeer?.name;
  return grounds.target?.at === "beyond" && !uplinks.some(({ name }) => name === port);
}

/** Whether the node routes to the other end of the pod NIC, which is a port of no bridge. */
async function peerRoute(
  netlink: DoctorSources["netlink"],
  { node }: ExaminedNic,
  peer: string,
): Promise<Pick<SeenWay, "isPeerRouted">> {
  const found = isRoutedTo(netlink, node, peer).then((is) => (is === undefined ? [] : [is]));
  const [isPeerRouted] = await hintsOf(found);
  return isPeerRouted === undefined ? {} : { isPeerRouted };
}

/** What the probes met. */
interface ProbeResults {
  readonly traces: readonly FrameTrace[];
  readonly losses: readonly LossCount[];
}

function hasLost({ traces, losses }: ProbeResults): boolean {
  return (
    losses.some((each) => !isWholeSeries(each)) ||
    traces.some((trace) => !UNANSWERED.includes(trace.probe) && !isWhole(trace))
  );
}

/** What frames were lost to, where they were. */
async function readCauses(
  sources: DoctorSources,
  grounds: Grounds,
  { traces, losses }: ProbeResults,
): Promise<Pick<SeenWay, "neighbors" | "entries" | "filters" | "isPeerRouted">> {
  const { links, nic, target } = grounds;
  const { netlink } = sources;
  const by = traces.find(({ probe }) => probe === "outward")?.by ?? [];
  const addresses = [...nic.addresses, sourceOf(grounds) ?? "", target?.address ?? ""];
  const neighbors = await hintsOf(readNeighbors(netlink, nic, addresses));
  const all = await hintsOf(readEntries(netlink, nic, [outsideMac(grounds), ...by]));
  const entries = all.filter((entry) => leadsAway(entry, grounds));
  const peer = links.nodePeer;
  const isLoose = peer !== undefined && peer.master === undefined;
  return {
    neighbors,
    entries,
    ...((isLoose || hasLost({ traces, losses })) && {
      filters: await hintsOf(readFilters(sources, nic)),
    }),
    ...(isLoose && (await peerRoute(netlink, nic, peer.name))),
  };
}

/** Whether the node is the gateway of the guest's default route. */
function isRoutedByNode({ target }: Grounds): boolean {
  return target?.at === "bridge" && target.isDefault === true && target.isMissing !== true;
}

/** The node's default route, unless it leads back to the guest's network. */
async function wayOut(
  netlink: DoctorSources["netlink"],
  { nic, links }: Grounds,
): Promise<NodeRoute | undefined> {
  const found = readNodeRoute(netlink, nic.node).then((each) => (each === undefined ? [] : [each]));
  const [route] = await hintsOf(found);
  const inside = [links.nodeBridge?.name, links.nodePeer?.name];
  return inside.includes(route?.link) ? undefined : route;
}

/** The result of a ping through the node, if the node is the guest's gateway and has a gateway itself. */
async function tryForwarding(
  { netlink, clock }: DoctorSources,
  grounds: Grounds,
  { by, endMs }: { readonly by: string | undefined; readonly endMs: number },
): Promise<Pick<SeenWay, "forwarded">> {
  const { nic, newId } = grounds;
  const source = sourceOf(grounds);
  if (!isRoutedByNode(grounds) || by === undefined || source === undefined) return {};
  const route = await wayOut(netlink, grounds);
  if (route === undefined || clock.monotonicMs() + FORWARDED_MS > endMs) return {};
  const ends = { pod: nic.pod, node: nic.node, nic: nic.wiring.podInterfaceName };
  const from = { mac: outsideMac(grounds), source, via: by, newId };
  return { forwarded: await pingThroughNode(netlink, { ...ends, ...from }, route) };
}

async function examine(
  sources: DoctorSources,
  see: ReturnType<typeof createStateReader>,
  nic: ExaminedNic,
): Promise<SeenWay> {
  const { netlink, clock } = sources;
  const endMs = clock.monotonicMs() + nic.withinMs;
  const links = await lookAtWay(netlink, nic, nic.wiring);
  const state = await see(nic.pod);
  const before = await listRefusals(sources, nic, state);
  const target = await findTarget(sources, nic, links);
  const found = target === undefined ? {} : { target };
  const newId = (): number => randomBytes(4).readUInt32BE();
  const grounds: Grounds = { nic, links, newId, ...found };
  const ears = earsOf(links, nic);
  const probes = firstProbes(grounds);
  const reservedMs = Math.min(AFTER_MS, nic.withinMs * 0.3);
  const first = await ask(sources, ears, {
    probes,
    untilMs: endMs - LATER_MS - laterShare(nic, reservedMs),
  });
  const more = laterProbes(grounds, first);
  const later = await ask(sources, ears, { probes: more, untilMs: endMs - reservedMs });
  const traces = [...first, ...later];
  const by = first.find(({ probe }) => probe === "outward")?.by[0];
  const forwarded = await tryForwarding(sources, grounds, { by, endMs });
  const losses = await countLosses(sources, ears, {
    probes: () => seriesProbes(grounds, traces),
    untilMs: endMs,
  });
  const causes = await readCauses(sources, grounds, { traces, losses });
  const source = sourceOf(grounds);
  return {
    isBridged: nic.wiring.kind === "bridge",
    links,
    lacks: lacksIn(state, nic.wiring),
    traces,
    losses,
    ...causes,
    ...forwarded,
    ...(await countDhcpRequests(sources, nic, state)),
    ...(source === undefined ? {} : { source }),
    refused: refusedSince(before, await listRefusals(sources, nic, state)),
    ...found,
  };
}

/** Looks by netlink, and asks by packet sockets. */
export function createNicDoctor(sources: DoctorSources): NicDoctor {
  const see = createStateReader(sources);
  return { examine: (nic) => examine(sources, see, nic) };
}
