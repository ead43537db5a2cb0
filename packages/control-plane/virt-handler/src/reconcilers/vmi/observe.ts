// SPDX-License-Identifier: Apache-2.0
// Reads the facts about one VMI on this node: specification, attachments, links and live domain.
import { AppError } from "@patchbay/base";
import {
  collectIfaceFacts,
  updateDeviceTaps,
  listCurrentWirings,
  listExpectedWirings,
  buildLinkFilter,
  findOrphanedWirings,
  type DeviceTaps,
  type IfaceSources,
  withWired,
  parseResolver,
  listVhostSockets,
  type ObservedWiring,
  type RememberedAddresses,
  type ObservedSocket,
} from "@patchbay/core/nics";
import {
  domainNameOf,
  buildMachineUuid,
  type DomainSnapshot,
  type NodeVmFacts,
} from "@patchbay/core/vm";
import { EMPTY_GUEST_VIEW, type GuestView } from "@patchbay/core/guest";
import { targetView } from "@patchbay/core/migration";
import type { DomainFacts } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import type { HypervisorConnection, DomainState, Link, PodView } from "@patchbay/core/interfaces";
import { networkConfigOf, usesEmulation, type VirtualMachineInstance } from "@patchbay/api";
import type { Deps } from "../../deps.ts";
import { compareWiredSpecs } from "../../memory.ts";
import type { LauncherContext } from "./steps/step-context.ts";

type DomainReader = Pick<HypervisorConnection, "readDomainXml">;

interface ParsedXml {
  readonly xml: string;
  readonly facts: DomainFacts;
}

/** Last parsed domain by connection. Each connection serves one domain. */
const lastParsed = new WeakMap<DomainReader, ParsedXml>();

/** Reads and parses the domain. @throws AppError with DOMAIN_XML_INVALID, and the errors of the connection */
export async function readDomainFacts(
  name: string,
  connection: DomainReader,
): Promise<DomainFacts> {
  const xml = await connection.readDomainXml(name, "live");
  const last = lastParsed.get(connection);
  if (last?.xml === xml) return last.facts;
  const parsed = parseDomain(xml);
  if (!parsed.ok) throw new AppError("DOMAIN_XML_INVALID", { reason: parsed.reason });
  lastParsed.set(connection, { xml, facts: parsed.domain });
  return parsed.domain;
}

/** States in which libvirt has no QEMU process. Source: libvirt virDomainState. */
const ENDED_STATES: readonly DomainState[] = ["shutoff", "crashed"];

async function observeDomain(
  name: string,
  connection: HypervisorConnection,
): Promise<DomainSnapshot | undefined> {
  const info = await connection.findDomain(name);
  if (info === undefined) return undefined;
  const facts = await readDomainFacts(name, connection);
  return {
    running: !ENDED_STATES.includes(info.state),
    // A guest that libvirt pauses to complete a migration does not count as paused.
    isPaused: info.state === "paused" && info.move === undefined,
    ...(info.hasDiskError === true && { hasDiskError: true }),
    // A domain that migrated away while this node still owns the VMI counts as crashed.
    crashed: info.state === "crashed" || info.move === "left",
    ...(info.move === "leaving" && { isMigratingOut: true as const }),
    facts,
  };
}

async function observeLinks(
  vmi: VirtualMachineInstance,
  { session, domain }: LauncherContext & KnownFacts,
  deps: Deps,
): Promise<[DomainSnapshot | undefined, PodView]> {
  const { netns } = session.launcher;
  if (domain !== undefined) {
    session.markLinksObserved();
    return [domain, await deps.podNetwork.observe(netns)];
  }
  session.markObserved();
  return settleBoth(
    observeDomain(domainNameOf(vmi), session.connection),
    deps.podNetwork.observe(netns),
  );
}

/**
 * Waits until both calls have ended, even if one call fails early. An earlier return would let the caller close the session's
 * descriptors while the other call still uses the descriptors.
 */
async function settleBoth<One, Other>(
  one: Promise<One>,
  other: Promise<Other>,
): Promise<[One, Other]> {
  await Promise.allSettled([one, other]);
  return Promise.all([one, other]);
}

function observeGuest(
  vmi: VirtualMachineInstance,
  domain: DomainSnapshot | undefined,
  { guestAgents }: Deps,
): { view: GuestView; facts: Pick<NodeVmFacts, "guestLinks" | "silentSince" | "guestSystem"> } {
  if (domain?.running !== true) return { view: EMPTY_GUEST_VIEW, facts: {} };
  guestAgents.recordConnected(vmi, domain.facts.agentConnected);
  const view = guestAgents.getView(vmi);
  const silentSince = guestAgents.silentSince(vmi);
  const guestSystem = guestAgents.findSystem(vmi.metadata.uid ?? "");
  const facts = {
    guestLinks: view.otherLinks,
    ...(silentSince === undefined ? {} : { silentSince }),
    ...(guestSystem === undefined ? {} : { guestSystem }),
  };
  return { view, facts };
}

async function observeAddresses(
  podUid: string,
  links: readonly Link[],
  { addressStore, guestServers }: Deps,
): Promise<{ remembered: readonly RememberedAddresses[]; facts: Pick<NodeVmFacts, "served"> }> {
  await addressStore.retain(podUid, (row) =>
    links.some(({ name, index }) => name === row.podInterfaceName && index === row.index),
  );
  const served = guestServers.listServed(podUid);
  return { remembered: await addressStore.list(podUid), facts: { served } };
}

/** Watches the vhost-user sockets that CNI plugins reported, and returns their states by pod NIC. */
function observeSockets(
  vmi: VirtualMachineInstance,
  { pod, session }: LauncherContext,
  { vhostSockets, kubevirts }: Deps,
): ReadonlyMap<string, ObservedSocket> {
  const sockets = listVhostSockets(vmi, networkConfigOf(kubevirts.list()[0]).bindings);
  session.watchSockets(sockets.map(({ path }) => path));
  return new Map(
    sockets.map((socket) => [socket.podInterfaceName, vhostSockets.observe(pod.uid, socket)]),
  );
}

function markWired(ifaces: NodeVmFacts["ifaces"], view: PodView): NodeVmFacts["ifaces"] {
  const listTaps = (wirings: readonly ObservedWiring[]): ReadonlySet<string> =>
    new Set(wirings.map(({ tapName }) => tapName));
  const wired = listExpectedWirings(ifaces).filter((wiring) => view.isWired(wiring));
  const outdated = listCurrentWirings(ifaces).filter((wiring) => !view.hasPolicy(wiring));
  return withWired(ifaces, listTaps(wired), listTaps(outdated));
}

function observePod(
  vmi: VirtualMachineInstance,
  { role, pod, session }: LauncherContext,
  { policies }: Deps,
): Pick<IfaceSources, "incomingPodUid" | "isMeshed" | "podPolicy" | "networkPolicies"> {
  const { policy: podPolicy, networks } = policies.find(vmi, pod);
  return {
    ...(role === "target" && { incomingPodUid: pod.uid }),
    ...(session.launcher.isMeshed && { isMeshed: true }),
    ...(podPolicy !== undefined && { podPolicy }),
    ...(networks !== undefined && { networkPolicies: networks.policies }),
  };
}

/** Domain that this pass has already read; unset if it must be read again. */
export interface KnownFacts {
  readonly domain?: DomainSnapshot | undefined;
}

/**
 * Collects the facts about a VMI. Reads the domain from libvirt unless `launcher` contains it.
 * @throws AppError with DOMAIN_XML_INVALID, and the errors of `HypervisorConnection` and `PodNetwork`
 */
export async function observeNodeVm(
  stored: VirtualMachineInstance,
  launcher: LauncherContext & KnownFacts,
  deps: Deps,
): Promise<NodeVmFacts> {
  const { pod, role, session } = launcher;
  const vmi = role === "target" ? targetView(stored) : stored;
  const [domain, view] = await observeLinks(vmi, launcher, deps);
  const { links } = view;
  const nics = domain?.running === true ? domain.facts.nics : [];
  const uid = vmi.metadata.uid ?? "";
  const guest = observeGuest(vmi, domain, deps);
  const kubevirt = deps.kubevirts.list()[0];
  const network = networkConfigOf(kubevirt);
  const { bindings, security } = network;
  const deviceTaps: DeviceTaps = deps.deviceTaps.get(uid) ?? new Map<string, number>();
  const addresses = await observeAddresses(pod.uid, links, deps);
  const learned = deps.learnedAddresses.list(vmi);
  const reported = { guest: guest.view, learned, deviceTaps, remembered: addresses.remembered };
  const isRunning = domain?.running === true;
  const sockets = observeSockets(vmi, launcher, deps);
  const useEmulation = usesEmulation(kubevirt);
  const observed = { links, sockets, nics, isRunning, isEmulated: useEmulation };
  const podFacts = observePod(vmi, launcher, deps);
  const sources = { vmi, ...observed, bindings, security, ...reported, ...podFacts };
  const ifaces = markWired(collectIfaceFacts(sources), view);
  deps.deviceTaps.set(uid, updateDeviceTaps(ifaces, deviceTaps));
  const { specs, changedIfaces } = compareWiredSpecs(ifaces, deps.wiredSpecs.get(uid));
  deps.wiredSpecs.set(uid, specs);
  session.wakeOnlyFor(buildLinkFilter(ifaces, links));
  return {
    vmi,
    role,
    ifaces,
    domain,
    isPauseRequested: deps.pauseRequests.get(uid),
    useEmulation,
    network,
    uuid: buildMachineUuid(vmi),
    ...guest.facts,
    orphanedWirings: findOrphanedWirings(links, {
      ifaces,
      attachments: vmi.status?.attachments ?? [],
      nics,
    }),
    ...addresses.facts,
    dns: parseResolver(session.launcher.resolver ?? ""),
    changedIfaces,
    unplugRequests: Object.fromEntries(
      ifaces.map(({ name }) => [name, deps.unplugRequests.find(uid, name)]),
    ),
  };
}
