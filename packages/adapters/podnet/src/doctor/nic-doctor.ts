// SPDX-License-Identifier: Apache-2.0
// Diagnoses the path of a guest NIC: reads links and rules, and sends probes. The result omits contents of frames.
import { randomBytes } from "node:crypto";
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api/values";
import type {
  FixedEntry,
  FrameTrace,
  HopName,
  LossCount,
  ProbeName,
  RefusedFrames,
  RouteFault,
  ObservedPath,
  PathLinks,
  ProbeTarget,
} from "@patchbay/core/doctor";
import type { ExaminedNic, NicDoctor } from "@patchbay/core/interfaces";
import { queryNic } from "../netlink/queries.ts";
import {
  createNetnsStates,
  type NetnsState,
  type NetnsStates,
  type StateSources,
} from "../netlink/netns-state.ts";
import { answersTableName } from "../nft/answers.ts";
import {
  parseDhcpRequests,
  parsePolicyDrops,
  parseRefusals,
  type Refusal,
} from "../nft/counters.ts";
import { guardTableName } from "../nft/guard.ts";
import { natTableName } from "../nft/nat.ts";
import { policyTableName } from "../nft/policy.ts";
import { hasTableNamed, type TableName } from "../nft/table.ts";
import { runInNamespace } from "../run-in.ts";
import { isGuarded } from "../wiring/wirers.ts";
import {
  sendProbes,
  countLosses,
  type DoctorSources,
  type CapturePoint,
  type GuestRequests,
  EXCHANGE_MS,
  isWholeSeries,
  pingThroughNode,
  SERIES_MS,
  SERIES_MAX,
} from "./send-probes.ts";
import { findWiringFaults } from "./wiring-faults.ts";
import {
  buildFirstProbes,
  buildLaterProbes,
  findOutsideMac,
  buildSeriesProbes,
  findSourceIpv4,
  type ProbeFacts,
} from "./probes.ts";
import {
  readEntries,
  readFilters,
  readNeighbors,
  readNodeRoute,
  readPacketFilters,
  readUplinkFault,
  readRouteFault,
  type RouteLookup,
  hasRulesForSource,
  type NodeRoute,
  hasRouteThrough,
} from "./surroundings.ts";
import { readPathLinks } from "./path-links.ts";

/** Time that is reserved for the probes of {@link buildLaterProbes}, in milliseconds. */
const LATER_PROBES_MS = 3 * EXCHANGE_MS;
/** Maximum duration of a ping through the node, in milliseconds. */
const FORWARDED_MS = 2 * EXCHANGE_MS;
const SERIES_AND_FORWARDING_MS = SERIES_MAX * SERIES_MS + FORWARDED_MS;
/** Number of probes of a gateway for which CNI returned no route, and additional time for all these probes, in milliseconds. */
const [UNROUTED_ATTEMPTS, MARGIN_MS] = [3, 10];
/** Maximum number of uplinks of the node's bridge at which frames are captured. */
const UPLINKS_MAX = 4;

function listCapturePoints(links: PathLinks, { pod, node }: ExaminedNic): readonly CapturePoint[] {
  const hops = ["tap", "podBridge", "podNic", "nodePeer", "nodeBridge"] as const;
  const pathPoints = hops.flatMap((hop): readonly CapturePoint[] => {
    const link = links[hop]?.name;
    const netns = hop.startsWith("node") ? node : pod;
    return link === undefined ? [] : [{ hop, netns, link }];
  });
  const uplinks = links.uplinks
    .slice(0, UPLINKS_MAX)
    .map(({ name }) => ({ hop: "uplink", netns: node, link: name }) as const);
  return [...pathPoints, ...uplinks];
}

function withoutPrefix(text: string): string {
  return text.split("/")[0] ?? text;
}

function findNodeAddress(
  { addresses }: ExaminedNic,
  { nodeBridge }: PathLinks,
): string | undefined {
  const guests = addresses.flatMap((address) => parseIp(address) ?? []);
  return nodeBridge?.addresses
    .filter((nodeCidr) => {
      const subnet = parseIp(nodeCidr);
      return (
        subnet !== undefined && guests.some((guest) => isWithin(guest, toNetworkAddress(subnet)))
      );
    })
    .map(withoutPrefix)[0];
}

async function findPodGateway(
  { netlink }: StateSources,
  { pod, wiring }: ExaminedNic,
): Promise<string | undefined> {
  const podNic = await queryNic(netlink, pod, wiring.podInterfaceName);
  return podNic?.routes.find(({ destination }) => destination === "0.0.0.0/0")?.gateway;
}

function isNodeAddress({ nodeBridge, nodePeer }: PathLinks, address: string): boolean {
  return [nodeBridge, nodePeer].some((link) =>
    (link?.addresses ?? []).some((linkAddress) => withoutPrefix(linkAddress) === address),
  );
}

/** Returns the time to reserve for pings, in milliseconds. The time is 0 if the guest has no address that can be pinged. */
function computePingReserveMs({ addresses }: ExaminedNic, pingAndForwardingMs: number): number {
  return addresses.length === 0 ? 0 : pingAndForwardingMs;
}

async function answers(sources: DoctorSources, facts: ProbeFacts): Promise<boolean> {
  const outward = buildFirstProbes(facts).filter(({ probe }) => probe === "outward");
  const probes = outward.map((probe) => ({ ...probe, attempts: UNROUTED_ATTEMPTS }));
  const untilMs = sources.clock.monotonicMs() + UNROUTED_ATTEMPTS * EXCHANGE_MS + MARGIN_MS;
  const capturePoints = listCapturePoints(facts.links, facts.nic);
  const traces = await sendProbes(sources, capturePoints, { probes, untilMs });
  return traces.some(({ replySeenAt }) => replySeenAt.length > 0);
}

function findOtherTarget(nic: ExaminedNic, links: PathLinks): ProbeTarget | undefined {
  const node = findNodeAddress(nic, links);
  if (node !== undefined) return { address: node, at: "bridge" };
  if (nic.neighbor === undefined) return undefined;
  return { address: nic.neighbor, at: links.onNode === "peer" ? "port" : "beyond", isGuest: true };
}

async function chooseTarget(
  sources: DoctorSources,
  facts: ProbeFacts,
): Promise<ProbeTarget | undefined> {
  const { nic, links } = facts;
  const toGateway = (address: string): ProbeTarget => {
    return { address, at: isNodeAddress(links, address) ? "bridge" : "beyond" };
  };
  const { address: named, isRouted = false } = nic.gateway ?? {};
  const router = named !== undefined && isRouted ? named : await findPodGateway(sources, nic);
  if (router !== undefined) return { ...toGateway(router), isDefault: true };
  const other = findOtherTarget(nic, links);
  if (named === undefined) return other;
  const target: ProbeTarget = { ...toGateway(named), isUnrouted: true };
  if (target.at === "bridge" || other === undefined) return target;
  return (await answers(sources, { ...facts, target })) ? target : other;
}

/**
 * Finds the target of the probes. If the target is beyond the node's bridge, but the bridge has no uplinks and the node has NAT rules for
 * the guest, the node itself should be the gateway. In this case, marks the target as an address that the bridge lacks.
 */
async function findTarget(
  sources: DoctorSources,
  facts: ProbeFacts,
): Promise<ProbeTarget | undefined> {
  const { nic, links } = facts;
  const target = await chooseTarget(sources, facts);
  const source = findSourceIpv4({ nic, links });
  const isLocal = links.nodeBridge !== undefined && links.uplinks.length === 0;
  if (target?.at !== "beyond" || !isLocal || source === undefined) return target;
  const isOwnGateway = await hasRulesForSource(sources.runner, nic.node, source);
  return isOwnGateway ? { ...target, at: "bridge", isMissing: true } : target;
}

async function listRefusals(
  { runner }: StateSources,
  { pod, wiring }: ExaminedNic,
  state: NetnsState,
): Promise<readonly Refusal[]> {
  if (wiring.guard === undefined || !isGuarded(state, wiring)) return [];
  const { family, name } = guardTableName(wiring.tapName);
  const args = ["-p", "list", "table", family, name];
  return parseRefusals(await runInNamespace(runner, pod, { program: "nft", args }));
}

async function listPolicyDrops(
  { runner }: StateSources,
  { pod, wiring }: ExaminedNic,
  { tables }: NetnsState,
): Promise<readonly Refusal[]> {
  const name = policyTableName(wiring.tapName);
  if (wiring.policy === undefined || !hasTableNamed(tables, name)) return [];
  // Omits the elements of sets, because the guest's flows fill some of them.
  const args = ["-t", "-p", "list", "table", name.family, name.name];
  return parsePolicyDrops(await runInNamespace(runner, pod, { program: "nft", args }));
}

function findDhcpRequestsTable(wiring: ExaminedNic["wiring"]): TableName | undefined {
  if (wiring.kind === "masquerade") return natTableName(wiring.podInterfaceName);
  const isAnswered = wiring.kind === "bridge" && wiring.replies !== undefined;
  return isAnswered ? answersTableName(wiring.bridgeName) : undefined;
}

async function countDhcpRequests(
  { runner }: StateSources,
  { pod, wiring }: ExaminedNic,
  { tables }: NetnsState,
): Promise<Pick<ObservedPath, "dhcpRequests">> {
  const name = findDhcpRequestsTable(wiring);
  if (name === undefined || !hasTableNamed(tables, name)) return {};
  const args = ["-p", "list", "table", name.family, name.name];
  return {
    dhcpRequests: parseDhcpRequests(await runInNamespace(runner, pod, { program: "nft", args })),
  };
}

function addRecentFrames(
  earlierRefusals: readonly Refusal[],
  refusals: readonly Refusal[],
): readonly RefusedFrames[] {
  return refusals.map((refusal) => {
    const earlierFrames =
      earlierRefusals.find(({ description }) => description === refusal.description)?.frames ?? 0;
    return { ...refusal, recentFrames: Math.max(0, refusal.frames - earlierFrames) };
  });
}

function hasReplyAtPathEnd({ probe, replySeenAt }: FrameTrace): boolean {
  const isTowardGuest = ["inward", "inwardLarge", "ping", "connect"].includes(probe);
  const pathEnds: readonly HopName[] = isTowardGuest ? ["nodePeer", "podBridge"] : ["podNic"];
  return pathEnds.some((hop) => replySeenAt.includes(hop));
}

const OPTIONAL_PROBES: readonly ProbeName[] = ["own", "dhcp", "outwardLarge"];

/** Returns the list, or an empty list after an error. A guest can make a table too large to read, and the diagnosis works without it. */
async function listOrEmpty<T>(listing: Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await listing;
  } catch {
    return [];
  }
}

/** Checks whether the entry sends frames for the guest or its gateway to a port that is not on the NIC's path. */
function leadsOffPath({ at, mac, port }: FixedEntry, facts: ProbeFacts): boolean {
  const { podNic, nodePeer, uplinks } = facts.links;
  const isGuestMac = mac === findOutsideMac(facts);
  // Ignores fixed entries for the guest's MAC in the pod, because `findWiringFaults` checks them.
  if (at === "pod") return !isGuestMac && port !== podNic?.name;
  if (isGuestMac) return port !== nodePeer?.name;
  return facts.target?.at === "beyond" && !uplinks.some(({ name }) => name === port);
}

async function readPeerRoute(
  netlink: DoctorSources["netlink"],
  { node }: ExaminedNic,
  peer: string,
): Promise<Pick<ObservedPath, "isPeerRouted">> {
  const routed = hasRouteThrough(netlink, node, peer).then((isRouted) =>
    isRouted === undefined ? [] : [isRouted],
  );
  const [isPeerRouted] = await listOrEmpty(routed);
  return isPeerRouted === undefined ? {} : { isPeerRouted };
}

interface ProbeResults {
  readonly traces: readonly FrameTrace[];
  readonly losses: readonly LossCount[];
}

function hasLosses({ traces, losses }: ProbeResults): boolean {
  return (
    losses.some((loss) => !isWholeSeries(loss)) ||
    traces.some((trace) => !OPTIONAL_PROBES.includes(trace.probe) && !hasReplyAtPathEnd(trace))
  );
}

async function readCauses(
  sources: DoctorSources,
  facts: ProbeFacts,
  { traces, losses }: ProbeResults,
): Promise<Pick<ObservedPath, "neighbors" | "entries" | "filters" | "isPeerRouted">> {
  const { links, nic, target } = facts;
  const { netlink } = sources;
  const gatewayMacs = traces.find(({ probe }) => probe === "outward")?.repliedFrom ?? [];
  const addresses = [...nic.addresses, findSourceIpv4(facts) ?? "", target?.address ?? ""];
  const neighbors = await listOrEmpty(readNeighbors(netlink, nic, addresses));
  const fixedEntries = await listOrEmpty(
    readEntries(netlink, nic, [findOutsideMac(facts), ...gatewayMacs]),
  );
  const entries = fixedEntries.filter((entry) => leadsOffPath(entry, facts));
  const peer = links.nodePeer;
  const isDetached = peer !== undefined && peer.master === undefined;
  return {
    neighbors,
    entries,
    ...((isDetached || hasLosses({ traces, losses })) && {
      filters: await listOrEmpty(readFilters(sources, nic)),
    }),
    ...(isDetached && (await readPeerRoute(netlink, nic, peer.name))),
  };
}

function isRoutedByNode({ target }: ProbeFacts): boolean {
  return target?.at === "bridge" && target.isDefault === true && target.isMissing !== true;
}

async function findDefaultRoute(
  netlink: DoctorSources["netlink"],
  { nic, links }: ProbeFacts,
): Promise<NodeRoute | undefined> {
  const routes = readNodeRoute(netlink, nic.node).then((nodeRoute) =>
    nodeRoute === undefined ? [] : [nodeRoute],
  );
  const [route] = await listOrEmpty(routes);
  const guestLinks = [links.nodeBridge?.name, links.nodePeer?.name];
  return guestLinks.includes(route?.link) ? undefined : route;
}

async function tryForwarding(
  { netlink, clock }: DoctorSources,
  facts: ProbeFacts,
  { gatewayMac, endMs }: { readonly gatewayMac: string | undefined; readonly endMs: number },
): Promise<Pick<ObservedPath, "forwarded">> {
  const { nic, newId } = facts;
  const source = findSourceIpv4(facts);
  if (!isRoutedByNode(facts) || gatewayMac === undefined || source === undefined) return {};
  const route = await findDefaultRoute(netlink, facts);
  if (route === undefined || clock.monotonicMs() + FORWARDED_MS > endMs) return {};
  const namespaces = { pod: nic.pod, node: nic.node, nic: nic.wiring.podInterfaceName };
  const guest = { mac: findOutsideMac(facts), source, via: gatewayMac, newId };
  return { forwarded: await pingThroughNode(netlink, { ...namespaces, ...guest }, route) };
}

async function readNodeUplink(
  { netlink }: DoctorSources,
  facts: ProbeFacts,
): Promise<Pick<ObservedPath, "nodeUplinkFault">> {
  if (!isRoutedByNode(facts)) return {};
  const fault = await readUplinkFault(netlink, facts.nic.node);
  return fault === undefined ? {} : { nodeUplinkFault: fault };
}

function isIpv4(address: string | undefined): address is string {
  return address !== undefined && parseIp(address)?.version === 4;
}

/** Lists route lookups: with masquerade, the pod's route to the target; if the node is the gateway, the node's route to the guest. */
function listRouteLookups(facts: ProbeFacts): readonly RouteLookup[] {
  const { nic, links, target } = facts;
  const { wiring, addresses } = nic;
  const [guest, source] = [addresses.find(isIpv4), findSourceIpv4(facts)];
  const bridge = links.nodeBridge ?? links.nodePeer;
  const inPod =
    wiring.kind === "masquerade" && guest !== undefined && isIpv4(target?.address)
      ? [["route", "get", target.address, "from", guest, "iif", wiring.bridgeName]]
      : [];
  const onNode =
    isRoutedByNode(facts) && source !== undefined && bridge !== undefined
      ? [{ at: "node", args: ["route", "get", source], link: bridge.name } as const]
      : [];
  return [
    ...inPod.map((args) => ({ at: "pod", args, link: wiring.podInterfaceName }) as const),
    ...onNode,
  ];
}

async function readRouteFaults(
  { runner }: StateSources,
  facts: ProbeFacts,
): Promise<readonly RouteFault[]> {
  const faults = await Promise.all(
    listRouteLookups(facts).map((lookup) => readRouteFault(runner, facts.nic[lookup.at], lookup)),
  );
  return faults.flat();
}

/** Probes that are reported separately, because they may stay unanswered even if no frame is lost. */
const SEPARATE_PROBES: readonly ProbeName[] = ["through", "beyond"];

function describeGuestRoute(
  traces: readonly FrameTrace[],
  { addresses }: GuestRequests,
): Pick<ObservedPath, "guestRoute"> {
  const trace = traces.find(({ probe }) => probe === "beyond");
  return trace === undefined ? {} : { guestRoute: { trace, requested: [...addresses] } };
}

/** Returns the trace of the probe `through`. If no reply reached the pod's NIC, also reads the pod's packet filters as possible causes. */
async function readThrough(
  { runner }: StateSources,
  { nic, links }: ProbeFacts,
  traces: readonly FrameTrace[],
): Promise<Pick<ObservedPath, "through" | "packetFilters">> {
  const { wiring, pod } = nic;
  const through = traces.find(({ probe }) => probe === "through");
  if (through === undefined || wiring.kind !== "masquerade") return {};
  if (through.replySeenAt.includes("podNic")) return { through };
  const names = [links.podNic?.name, links.podBridge?.name].flatMap((name) => name ?? []);
  const ends = { links: names, guest: wiring.ipv4?.guest ?? "" };
  return { through, packetFilters: await readPacketFilters(runner, pod, ends) };
}

async function examine(
  sources: DoctorSources,
  states: NetnsStates,
  nic: ExaminedNic,
): Promise<ObservedPath> {
  const { netlink, clock } = sources;
  const endMs = clock.monotonicMs() + nic.withinMs;
  const links = await readPathLinks(netlink, nic, nic.wiring);
  const state = await states.read(nic.pod);
  const earlierRefusals = await listRefusals(sources, nic, state);
  const earlierDrops = await listPolicyDrops(sources, nic, state);
  const newId = (): number => randomBytes(4).readUInt32BE();
  const target = await findTarget(sources, { nic, links, newId });
  const targetFields = target === undefined ? {} : { target };
  const facts: ProbeFacts = { nic, links, newId, ...targetFields };
  const capturePoints = listCapturePoints(links, nic);
  const probes = buildFirstProbes(facts);
  const seriesAndForwardingMs = Math.min(SERIES_AND_FORWARDING_MS, nic.withinMs * 0.3);
  const requests: GuestRequests = { mac: nic.wiring.mac, addresses: new Set() };
  const first = await sendProbes(sources, capturePoints, {
    probes,
    requests,
    untilMs: endMs - LATER_PROBES_MS - computePingReserveMs(nic, seriesAndForwardingMs),
  });
  // Counts lost pings first: on a lossy link, an unanswered large probe does not prove that all large frames are lost.
  const losses = await countLosses(sources, capturePoints, {
    probes: () => buildSeriesProbes(facts, first),
    untilMs: endMs - LATER_PROBES_MS,
  });
  const later = await sendProbes(sources, capturePoints, {
    probes: buildLaterProbes(facts, first),
    requests,
    untilMs: endMs,
  });
  const traces = [...first, ...later].filter(({ probe }) => !SEPARATE_PROBES.includes(probe));
  const gatewayMac = first.find(({ probe }) => probe === "outward")?.repliedFrom[0];
  const forwarded = await tryForwarding(sources, facts, { gatewayMac, endMs });
  const causes = await readCauses(sources, facts, { traces, losses });
  const source = findSourceIpv4(facts);
  return {
    isBridged: nic.wiring.kind === "bridge",
    links,
    wiringFaults: findWiringFaults(state, nic.wiring),
    traces,
    losses,
    ...causes,
    ...forwarded,
    ...(await readNodeUplink(sources, facts)),
    ...(await readThrough(sources, facts, later)),
    ...describeGuestRoute(later, requests),
    routeFaults: await readRouteFaults(sources, facts),
    ...(await countDhcpRequests(sources, nic, state)),
    ...(source === undefined ? {} : { source }),
    refused: addRecentFrames(earlierRefusals, await listRefusals(sources, nic, state)),
    policyDrops: addRecentFrames(earlierDrops, await listPolicyDrops(sources, nic, state)),
    ...targetFields,
  };
}

export function createNicDoctor(sources: DoctorSources): NicDoctor {
  const states = createNetnsStates(sources);
  return { examine: (nic) => examine(sources, states, nic) };
}
