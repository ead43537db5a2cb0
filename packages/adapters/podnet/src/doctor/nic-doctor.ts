// SPDX-License-Identifier: Apache-2.0
// Looks at the way of a NIC, and asks along it. What is heard is thrown away but for where it was heard, and whose MAC answered.
import { randomBytes } from "node:crypto";
import { isWithin, networkOf, parseIp } from "@patchbay/api";
import type {
  FrameTrace,
  HopName,
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
import { guardNameOf } from "../nft/guard.ts";
import { parseRefusals, type Refusal } from "../nft/refusals.ts";
import { runIn } from "../run-in.ts";
import { isGuarded } from "../wiring/rules.ts";
import type { NetnsState } from "../wiring/wirer.ts";
import { passes } from "./frames.ts";
import { lacksIn } from "./lacks.ts";
import { firstProbes, laterProbes, type Grounds, type Probe } from "./probes.ts";
import { lookAtWay } from "./way-links.ts";

/** How long one hearing is, milliseconds. */
const HEARING_MS = 200;
/** Sent so often and not answered, a frame is lost. */
const TIMES_MIN = 2;
/** What is left to the later questions, milliseconds. */
const LATER_MS = 3 * HEARING_MS;
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
  refused: string | undefined;
  /** How often it was asked. */
  times: number;
}

/** Of each probe; several that ask the same thing have one. */
type Trails = Map<ProbeName, Trail>;

function trailOf(trails: Trails, probe: ProbeName): Trail {
  const made = { asked: new Set<HopName>(), answered: new Set<HopName>(), by: new Set<string>() };
  const trail = trails.get(probe) ?? { ...made, refused: undefined, times: 0 };
  trails.set(probe, trail);
  return trail;
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
      trail.by.add(macOf(frame.subarray(6, 12)));
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
  const { asked, answered, by, refused, times } = trail;
  if (answered.size === 0 && times < TIMES_MIN) return [];
  return [
    {
      ...{ probe, asked: [...asked], answered: [...answered], by: [...by] },
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

/** Who is asked, and where that is, as far as it can be seen. */
async function targetOf(
  sources: StateSources,
  nic: ExaminedNic,
  links: WayLinks,
): Promise<WayTarget | undefined> {
  const { address: known, isGuest = false } = nic.target ?? {};
  const gateway = isGuest ? undefined : known;
  const router = gateway ?? (await podGateway(sources, nic)) ?? nodeAddress(nic, links);
  if (router !== undefined) {
    return { address: router, at: isOfNode(links, router) ? "bridge" : "beyond" };
  }
  if (known === undefined) return undefined;
  return { address: known, at: links.onNode === "peer" ? "port" : "beyond", isGuest: true };
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

function refusedSince(
  before: readonly Refusal[],
  after: readonly Refusal[],
): readonly RefusedFrames[] {
  return after.map((refusal) => {
    const earlier = before.find(({ what }) => what === refusal.what)?.frames ?? 0;
    return { ...refusal, lately: Math.max(0, refusal.frames - earlier) };
  });
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
  const target = await targetOf(sources, nic, links);
  const found = target === undefined ? {} : { target };
  const newId = (): number => randomBytes(4).readUInt32BE();
  const grounds: Grounds = { nic, links, newId, ...found };
  const ears = earsOf(links, nic);
  const probes = firstProbes(grounds);
  const first = await ask(sources, ears, { probes, untilMs: endMs - LATER_MS });
  const more = laterProbes(grounds, first);
  const later = await ask(sources, ears, { probes: more, untilMs: endMs });
  return {
    isBridged: nic.wiring.kind === "bridge",
    links,
    lacks: lacksIn(state, nic.wiring),
    traces: [...first, ...later],
    refused: refusedSince(before, await listRefusals(sources, nic, state)),
    ...found,
  };
}

/** Looks by netlink, and asks by packet sockets. */
export function createNicDoctor(sources: DoctorSources): NicDoctor {
  const see = createStateReader(sources);
  return { examine: (nic) => examine(sources, see, nic) };
}
