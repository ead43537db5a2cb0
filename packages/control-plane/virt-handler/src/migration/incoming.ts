// SPDX-License-Identifier: Apache-2.0
// The target side of a migration.
import { type NetworkConfig, type VirtualMachineInstance, networkConfigOf } from "@patchbay/api";
import { AppError, isAppError, isEqual, messageOf } from "@patchbay/base";
import { planDomain, domainNameOf } from "@patchbay/core/vm";
import {
  listAnnouncedNics,
  findIncomingFaults,
  listIncomingWirings,
  listExpectedNics,
  planIncoming,
  staysPaused,
  type IncomingFacts,
  type IncomingStep,
  type IncomingNic,
} from "@patchbay/core/migration";
import { printDomain, printPciAddress } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import { keyOf, printKey, printTime } from "@patchbay/kube";
import type { DomainInfo } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { readDomainFacts, observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { LauncherContext } from "../reconcilers/vmi/steps/step-context.ts";
import type { MigrationRun, GuestNetwork } from "./migration-runs.ts";
import { writeMigrationState, formatPorts } from "./migration-status.ts";
import { buildRelayRequest } from "./outgoing.ts";
import { makeCloudInitDisks } from "../hooks/cloud-init-disks.ts";

/** Does not affect the domain's paths. */
const PLACEHOLDERS = { useEmulation: true, uuid: "00000000-0000-4000-8000-000000000000" };

/**
 * Files and sockets of the domain as this node would define it, without those of its NICs.
 * @throws AppError with DOMAIN_XML_INVALID for a VMI that cannot be started
 */
function planPaths(vmi: VirtualMachineInstance, network: NetworkConfig): readonly string[] {
  const parsed = parseDomain(printDomain(planDomain(vmi, [], { ...PLACEHOLDERS, network })));
  if (!parsed.ok) throw new AppError("DOMAIN_XML_INVALID", { reason: parsed.reason });
  return parsed.domain.paths;
}

interface Incoming {
  readonly vmi: VirtualMachineInstance;
  readonly migration: IncomingFacts["migration"];
  readonly move: MigrationRun;
  readonly place: LauncherContext;
  readonly deps: Deps;
}

/** Either the source's relay reports it, or virt-controller found that the source pod has ended. */
function isOffAtSource({ migration, move }: Incoming): boolean {
  return move.isOffAtSource || migration.sourceEndedTimestamp !== undefined;
}

/** On the target, libvirt refuses job statistics during an incoming migration. Source: libvirt qemuDomainGetJobStats. */
async function isStillIncoming({ vmi, place }: Incoming): Promise<boolean> {
  try {
    const { state, move } = await place.session.connection.readJob(domainNameOf(vmi));
    return state === "running" && move !== "out";
  } catch (error) {
    if (isAppError(error, "LIBVIRT_REFUSED") || isAppError(error, "LIBVIRT_NOT_RUNNING")) {
      return true;
    }
    throw error;
  }
}

/** Expected paths without those of NICs. Hooks may add paths, so a guest with hooks is expected to have what it has. */
function expectedPaths({ vmi, move, place, deps }: Incoming, arrived: readonly string[]) {
  const { sidecars = [] } = place.session.launcher;
  if (sidecars.length > 0) return arrived;
  move.expectedPaths ??= planPaths(vmi, networkConfigOf(deps.kubevirts.list()[0]));
  return move.expectedPaths;
}

async function findFaults(arrival: Incoming): Promise<readonly string[]> {
  const { vmi, place, deps } = arrival;
  const { nics, paths } = await readDomainFacts(domainNameOf(vmi), place.session.connection);
  const arrived = nics.map(({ mac, tapName, socketPath, pciAddress }): IncomingNic => ({
    mac,
    tap: tapName ?? socketPath,
    pciAddress: pciAddress === undefined ? undefined : printPciAddress(pciAddress),
  }));
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const wired = {
    nics: listExpectedNics(vmi, bindings, arrived),
    paths: expectedPaths(arrival, paths),
  };
  return findIncomingFaults({ nics: arrived, paths }, wired);
}

async function readGuestNetwork({ vmi, move, place, deps }: Incoming): Promise<GuestNetwork> {
  if (move.guestNetwork === undefined) {
    const facts = await observeNodeVm(vmi, place, deps);
    move.guestNetwork = { wirings: listIncomingWirings(facts), nics: listAnnouncedNics(facts) };
  }
  return move.guestNetwork;
}

/**
 * Reads the facts while memory is still being copied, because the guest waits for them afterwards. The definition exists already;
 * reading it again later is quick if it is unchanged. Errors are handled at that later read.
 */
async function preloadFacts(arrival: Incoming): Promise<void> {
  const { move, vmi, deps } = arrival;
  if (move.guestNetwork !== undefined) return;
  try {
    await readGuestNetwork(arrival);
    await findFaults(arrival);
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.debug("a guest that comes cannot be looked at yet", fields);
  }
}

/** Reads only what the next decision needs, because the guest is paused meanwhile. */
async function inspectGuest(
  arrival: Incoming,
  domain: DomainInfo | undefined,
): Promise<Pick<IncomingFacts, "isComing" | "isOffAtSource" | "faults">> {
  const isOff = isOffAtSource(arrival);
  if (domain?.state === "paused" && !isOff) await preloadFacts(arrival);
  if (domain?.state !== "paused" || !isOff) {
    return { isComing: false, isOffAtSource: isOff, faults: [] };
  }
  const [isIncoming, faults] = await Promise.all([isStillIncoming(arrival), findFaults(arrival)]);
  return { isComing: isIncoming, isOffAtSource: true, faults: isIncoming ? [] : faults };
}

function addressFields({ move, deps }: Incoming) {
  return {
    targetNodeAddress: deps.relays.address,
    targetDirectMigrationNodePorts: formatPorts(move.relay?.ports ?? {}),
  };
}

function relayState(arrival: Incoming): IncomingFacts["relay"] {
  const { migration, move } = arrival;
  if (move.relay === undefined) return "none";
  const { targetNodeAddress, targetDirectMigrationNodePorts } = migration;
  const current = { targetNodeAddress, targetDirectMigrationNodePorts };
  return isEqual(current, addressFields(arrival)) ? "told" : "untold";
}

async function startRelay(arrival: Incoming): Promise<void> {
  const { place, move, deps } = arrival;
  // Computed now, because the guest waits for the comparison once it has arrived.
  expectedPaths(arrival, []);
  const relay = await deps.relays.receive(buildRelayRequest(arrival, place.session));
  move.useRelay(relay, undefined, place.wake);
}

/** Performs one repair without letting its failure block others. Once this node owns the guest, the regular pass repairs the rest. */
async function tryRepair({ vmi, deps }: Incoming, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("what is around a guest that has come is not whole yet", fields);
  }
}

/**
 * Wires the links as for a local guest, and announces the guest's MACs. QEMU announces them only some time after it resumes, and
 * until then switches would send frames to the source.
 */
async function wireAndAnnounce(arrival: Incoming): Promise<void> {
  const { place, deps } = arrival;
  const { netns } = place.session.launcher;
  const { wirings, nics } = await readGuestNetwork(arrival);
  for (const wiring of wirings) {
    await tryRepair(arrival, () => deps.podNetwork.wireTap(netns, wiring));
  }
  for (const nic of nics) await tryRepair(arrival, () => deps.podNetwork.announce(netns, nic));
}

/** The source is off. Resuming and wiring run in parallel, because frames may arrive before the guest reads them. */
async function resume(arrival: Incoming): Promise<void> {
  const { vmi, place, deps } = arrival;
  await Promise.all([
    place.session.connection.resumeDomain(domainNameOf(vmi)),
    wireAndAnnounce(arrival),
  ]);
  deps.log.info("a guest goes on here", { vmi: printKey(keyOf(vmi)) });
}

async function reportReady({ vmi, deps }: Incoming): Promise<void> {
  const targetNodeDomainReadyTimestamp = printTime(deps.clock.now());
  await writeMigrationState(vmi, { targetNodeDomainReadyTimestamp }, { deps });
}

async function reportFaults({ vmi, deps }: Incoming, faults: readonly string[]): Promise<void> {
  await writeMigrationState(vmi, { targetNodeDomainFaults: [...faults] }, { deps });
  if (faults.length === 0) return;
  const fields = { vmi: printKey(keyOf(vmi)), faults };
  deps.log.error("a guest that came stays paused: it is not what was made ready for it", fields);
}

const PERFORM: Readonly<Partial<Record<IncomingStep["kind"], (of: Incoming) => Promise<void>>>> = {
  startRelay,
  reportAddress: (arrival) =>
    writeMigrationState(arrival.vmi, addressFields(arrival), { deps: arrival.deps }),
  reportDetected: ({ vmi, deps }) =>
    writeMigrationState(vmi, { targetNodeDomainDetected: true }, { deps }),
  resume,
  welcome: wireAndAnnounce,
  reportReady,
  stopRelay: ({ move }) => {
    move.stopRelay();
    return Promise.resolve();
  },
};

async function perform(step: IncomingStep, arrival: Incoming): Promise<void> {
  if (step.kind === "reportFaults") await reportFaults(arrival, step.faults);
  else await PERFORM[step.kind]?.(arrival);
}

/**
 * One pass; safe to repeat. `isWired` tells whether all NICs that the guest brings along have their links here. Returns true when
 * the guest waits for a person.
 */
export async function receiveGuest(
  arrival: Incoming,
  { domain, isWired }: Pick<IncomingFacts, "domain" | "isWired">,
): Promise<boolean> {
  const { vmi, migration, deps } = arrival;
  const steps = planIncoming({
    migration,
    domain,
    isWired,
    relay: relayState(arrival),
    ...(await inspectGuest(arrival, domain)),
    staysPaused: staysPaused(vmi),
  });
  for (const step of steps) {
    try {
      await perform(step, arrival);
    } catch (error) {
      const fields = { vmi: printKey(keyOf(vmi)), step: step.kind, reason: messageOf(error) };
      deps.log.warn("a step of a guest's arrival failed", fields);
      throw error;
    }
  }
  return steps.some((step) => step.kind === "wait" && step.for === "person");
}

function hasCloudInitHooks({ vmi, place }: Incoming): boolean {
  const { sidecars = [] } = place.session.launcher;
  const { volumes = [] } = vmi.spec;
  const disks = volumes.map(({ cloudInitNoCloud, cloudInitConfigDrive }) => {
    return cloudInitNoCloud ?? cloudInitConfigDrive;
  });
  return sidecars.length > 0 && disks.some((disk) => disk !== undefined);
}

/**
 * Whether the cloud-init disks are ready. Otherwise the hooks are being called, and their answer wakes the loop. May be repeated.
 * @throws AppError of the failed hook call
 */
export function ensureCloudInitDisks(arrival: Incoming): boolean {
  if (!hasCloudInitHooks(arrival)) return true;
  const { vmi, place, deps } = arrival;
  const { pod, session, wake } = place;
  const { sidecars = [] } = session.launcher;
  const state = deps.guestHooks.ensureCalled(
    { pod, sidecars, vmi, hookNics: [], domainXml: undefined },
    wake,
  );
  if (state.kind === "answered") makeCloudInitDisks(state.cloudInit, { pod, deps });
  if (state.kind !== "failed") return state.kind === "answered";
  deps.guestHooks.retry(pod);
  throw state.error;
}
