// SPDX-License-Identifier: Apache-2.0
// Performs the target node's steps of a migration.
import { type NetworkConfig, type VirtualMachineInstance, networkConfigOf } from "@patchbay/api";
import { AppError, isAppError, isEqual, messageOf } from "@patchbay/base";
import { planDomain, domainNameOf } from "@patchbay/core/vm";
import {
  listAnnouncedNics,
  findIncomingFaults,
  listIncomingWirings,
  listExpectedNics,
  planIncoming,
  wasPausedAtSource,
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

/** Placeholders for values that do not affect the paths in the domain. */
const PATH_PLACEHOLDERS = { useEmulation: true, uuid: "00000000-0000-4000-8000-000000000000" };

/**
 * Returns the paths of files and sockets in the domain that this node would define for the VMI. Plans the domain without NICs, because
 * NICs are compared separately.
 * @throws AppError with DOMAIN_XML_INVALID
 */
function planPaths(vmi: VirtualMachineInstance, network: NetworkConfig): readonly string[] {
  const parsed = parseDomain(printDomain(planDomain(vmi, [], { ...PATH_PLACEHOLDERS, network })));
  if (!parsed.ok) throw new AppError("DOMAIN_XML_INVALID", { reason: parsed.reason });
  return parsed.domain.paths;
}

interface IncomingMigration {
  readonly vmi: VirtualMachineInstance;
  readonly migration: IncomingFacts["migration"];
  readonly run: MigrationRun;
  readonly launcher: LauncherContext;
  readonly deps: Deps;
}

/** Returns whether the relay reported that the guest has left the source, or virt-controller reported that the source pod has ended. */
function isOffAtSource({ migration, run }: IncomingMigration): boolean {
  return run.isOffAtSource || migration.sourceEndedTimestamp !== undefined;
}

/**
 * Returns whether libvirt still copies memory. During the copy, libvirt refuses to return job statistics on the target,
 * so a refusal counts as true. Source: libvirt qemuDomainGetJobStats.
 */
async function isStillIncoming({ vmi, launcher }: IncomingMigration): Promise<boolean> {
  try {
    const { state, move } = await launcher.session.connection.readJob(domainNameOf(vmi));
    return state === "running" && move !== "out";
  } catch (error) {
    if (isAppError(error, "LIBVIRT_REFUSED") || isAppError(error, "LIBVIRT_NOT_RUNNING")) {
      return true;
    }
    throw error;
  }
}

/** Returns the expected paths of the domain. Returns `actual` for a guest with hooks, because hooks may use any path. */
function findExpectedPaths(
  { vmi, run, launcher, deps }: IncomingMigration,
  actual: readonly string[],
) {
  const { sidecars = [] } = launcher.session.launcher;
  if (sidecars.length > 0) return actual;
  run.expectedPaths ??= planPaths(vmi, networkConfigOf(deps.kubevirts.list()[0]));
  return run.expectedPaths;
}

async function findFaults(incoming: IncomingMigration): Promise<readonly string[]> {
  const { vmi, launcher, deps } = incoming;
  const { nics, paths } = await readDomainFacts(domainNameOf(vmi), launcher.session.connection);
  const actual = nics.map(({ mac, tapName, socketPath, pciAddress }): IncomingNic => ({
    mac,
    tap: tapName ?? socketPath,
    pciAddress: pciAddress === undefined ? undefined : printPciAddress(pciAddress),
  }));
  const { bindings } = networkConfigOf(deps.kubevirts.list()[0]);
  const expected = {
    nics: listExpectedNics(vmi, bindings, actual),
    paths: findExpectedPaths(incoming, paths),
  };
  return findIncomingFaults({ nics: actual, paths }, expected);
}

async function readGuestNetwork({
  vmi,
  run,
  launcher,
  deps,
}: IncomingMigration): Promise<GuestNetwork> {
  if (run.guestNetwork === undefined) {
    const facts = await observeNodeVm(vmi, launcher, deps);
    run.guestNetwork = { wirings: listIncomingWirings(facts), nics: listAnnouncedNics(facts) };
  }
  return run.guestNetwork;
}

/** Reads and caches data about the guest during the memory copy, because reading it later would prolong the guest's pause. */
async function preloadFacts(incoming: IncomingMigration): Promise<void> {
  const { run, vmi, deps } = incoming;
  if (run.guestNetwork !== undefined) return;
  try {
    await readGuestNetwork(incoming);
    await findFaults(incoming);
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.debug("cannot read an incoming guest yet", fields);
  }
}

/** Reads only the facts that the next steps require, because the guest is paused while they are read. */
async function inspectGuest(
  incoming: IncomingMigration,
  domain: DomainInfo | undefined,
): Promise<Pick<IncomingFacts, "isIncoming" | "isOffAtSource" | "faults">> {
  const isOff = isOffAtSource(incoming);
  if (domain?.state === "paused" && !isOff) await preloadFacts(incoming);
  if (domain?.state !== "paused" || !isOff) {
    return { isIncoming: false, isOffAtSource: isOff, faults: [] };
  }
  const [isIncoming, faults] = await Promise.all([isStillIncoming(incoming), findFaults(incoming)]);
  return { isIncoming, isOffAtSource: true, faults: isIncoming ? [] : faults };
}

function buildAddressFields({ run, deps }: IncomingMigration) {
  return {
    targetNodeAddress: deps.relays.address,
    targetDirectMigrationNodePorts: formatPorts(run.relay?.ports ?? {}),
  };
}

function findRelayState(incoming: IncomingMigration): IncomingFacts["relay"] {
  const { migration, run } = incoming;
  if (run.relay === undefined) return "none";
  const { targetNodeAddress, targetDirectMigrationNodePorts } = migration;
  const current = { targetNodeAddress, targetDirectMigrationNodePorts };
  return isEqual(current, buildAddressFields(incoming)) ? "reported" : "unreported";
}

async function startRelay(incoming: IncomingMigration): Promise<void> {
  const { launcher, run, deps } = incoming;
  // Caches the expected paths in `run` now, because the guest is paused later while the paths are compared.
  findExpectedPaths(incoming, []);
  const relay = await deps.relays.receive(buildRelayRequest(incoming, launcher.session));
  run.useRelay(relay, undefined, launcher.wake);
}

/** Performs one repair. A failure is only logged, because regular passes repair the links once this node owns the guest. */
async function tryRepair(
  { vmi, deps }: IncomingMigration,
  act: () => Promise<void>,
): Promise<void> {
  try {
    await act();
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("failed to repair the links of an incoming guest", fields);
  }
}

/** Connects the guest's taps, and announces its MACs before QEMU does, so that switches send frames to this node earlier. */
async function wireAndAnnounce(incoming: IncomingMigration): Promise<void> {
  const { launcher, deps } = incoming;
  const { netns } = launcher.session.launcher;
  const { wirings, nics } = await readGuestNetwork(incoming);
  for (const wiring of wirings) {
    await tryRepair(incoming, () => deps.podNetwork.wireTap(netns, wiring));
  }
  for (const nic of nics) await tryRepair(incoming, () => deps.podNetwork.announce(netns, nic));
}

/** Resumes the guest, and in parallel connects its taps and announces its MACs. */
async function resume(incoming: IncomingMigration): Promise<void> {
  const { vmi, launcher, deps } = incoming;
  await Promise.all([
    launcher.session.connection.resumeDomain(domainNameOf(vmi)),
    wireAndAnnounce(incoming),
  ]);
  deps.log.info("resumed an incoming guest", { vmi: printKey(keyOf(vmi)) });
}

async function reportReady({ vmi, deps }: IncomingMigration): Promise<void> {
  const targetNodeDomainReadyTimestamp = printTime(deps.clock.now());
  await writeMigrationState(vmi, { targetNodeDomainReadyTimestamp }, { deps });
}

async function reportFaults(
  { vmi, deps }: IncomingMigration,
  faults: readonly string[],
): Promise<void> {
  await writeMigrationState(vmi, { targetNodeDomainFaults: [...faults] }, { deps });
  if (faults.length === 0) return;
  const fields = { vmi: printKey(keyOf(vmi)), faults };
  deps.log.error(
    "an incoming guest stays paused because its devices differ from what was prepared",
    fields,
  );
}

const STEP_HANDLERS: Readonly<
  Partial<Record<IncomingStep["kind"], (migration: IncomingMigration) => Promise<void>>>
> = {
  startRelay,
  reportAddress: (incoming) =>
    writeMigrationState(incoming.vmi, buildAddressFields(incoming), { deps: incoming.deps }),
  reportDetected: ({ vmi, deps }) =>
    writeMigrationState(vmi, { targetNodeDomainDetected: true }, { deps }),
  resume,
  announce: wireAndAnnounce,
  reportReady,
  stopRelay: ({ run }) => {
    run.stopRelay();
    return Promise.resolve();
  },
};

async function perform(step: IncomingStep, incoming: IncomingMigration): Promise<void> {
  if (step.kind === "reportFaults") await reportFaults(incoming, step.faults);
  else await STEP_HANDLERS[step.kind]?.(incoming);
}

/** Runs one pass on the target node. `isWired`: links and disks are ready. Returns true if the guest stays paused until a user acts. */
export async function receiveGuest(
  incoming: IncomingMigration,
  { domain, isWired }: Pick<IncomingFacts, "domain" | "isWired">,
): Promise<boolean> {
  const { vmi, migration, deps } = incoming;
  const steps = planIncoming({
    migration,
    domain,
    isWired,
    relay: findRelayState(incoming),
    ...(await inspectGuest(incoming, domain)),
    wasPausedAtSource: wasPausedAtSource(vmi),
  });
  for (const step of steps) {
    try {
      await perform(step, incoming);
    } catch (error) {
      const fields = { vmi: printKey(keyOf(vmi)), step: step.kind, reason: messageOf(error) };
      deps.log.warn("a step of an incoming migration failed", fields);
      throw error;
    }
  }
  return steps.some((step) => step.kind === "wait" && step.for === "person");
}

function hasCloudInitHooks({ vmi, launcher }: IncomingMigration): boolean {
  const { sidecars = [] } = launcher.session.launcher;
  const { volumes = [] } = vmi.spec;
  const disks = volumes.map(({ cloudInitNoCloud, cloudInitConfigDrive }) => {
    return cloudInitNoCloud ?? cloudInitConfigDrive;
  });
  return sidecars.length > 0 && disks.some((disk) => disk !== undefined);
}

/** Creates the cloud-init disks of a guest with hooks. Returns false while hook calls are pending. @throws the error of a failed call */
export function ensureCloudInitDisks(incoming: IncomingMigration): boolean {
  if (!hasCloudInitHooks(incoming)) return true;
  const { vmi, launcher, deps } = incoming;
  const { pod, session, wake } = launcher;
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
