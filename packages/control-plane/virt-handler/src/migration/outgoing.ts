// SPDX-License-Identifier: Apache-2.0
// Performs the source node's steps of a migration.
import { names, usesEmulation, type VirtualMachineInstance } from "@patchbay/api";
import { domainNameOf, disksToCopy } from "@patchbay/core/vm";
import {
  UNLIMITED_DOWNTIME_MS,
  downtimeAt,
  readMigrationLimits,
  type OutgoingFacts,
  mayDisruptNow,
  planOutgoing,
  type OutgoingStep,
} from "@patchbay/core/migration";
import { messageOf, isAppError } from "@patchbay/base";
import { outgoingMigrationFamilies, type MetricFamily } from "@patchbay/core/metrics";
import { keyOf, printKey, printTime } from "@patchbay/kube";
import type {
  HypervisorConnection,
  Migration,
  JobStats,
  DomainInfo,
} from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { SOCKETS, type RelayRequest, type RelayEndpoint } from "../relays/relays.ts";
import type { Session } from "../sessions/sessions.ts";
import type { MigrationRun } from "./migration-runs.ts";
import { writeMigrationState, parsePorts } from "./migration-status.ts";

interface OutgoingMigration {
  readonly vmi: VirtualMachineInstance;
  readonly migration: OutgoingFacts["migration"];
  readonly run: MigrationRun;
  /** Session of the launcher. Unset after the guest has arrived on the target, because the launcher may have exited. */
  readonly session: Session | undefined;
  readonly wake: () => void;
  readonly announce: () => Promise<void>;
  readonly deps: Deps;
}

export function buildRelayRequest(
  { vmi, migration }: Pick<OutgoingMigration, "vmi" | "migration">,
  { launcher }: Session,
): RelayRequest {
  const { directoryFd } = launcher;
  const disks = disksToCopy(vmi.spec).length;
  return {
    migration,
    disks,
    idleTimeoutMs: readMigrationLimits(migration).stallTimeoutMs,
    directoryFd,
  };
}

/** Builds the parameters for libvirt, with the paths of the relay's sockets inside the launcher. */
function buildMigration({ vmi, migration }: OutgoingMigration): Migration {
  const toLauncherPath = (socket: string): string => `${names.LAUNCHER_DIR}/${socket}`;
  const targets = disksToCopy(vmi.spec);
  const { bandwidthMibPerSecond, throttles, allowsUnsafe } = readMigrationLimits(migration);
  return {
    ...(bandwidthMibPerSecond !== undefined && { bandwidthMibPerSecond }),
    throttles,
    allowsUnsafe,
    ...(targets.length > 0 && {
      disks: { uri: `unix://${toLauncherPath(SOCKETS.disks)}`, targets },
    }),
    peerUri: `qemu+unix:///session?socket=${toLauncherPath(SOCKETS.peer)}`,
    memoryUri: `unix://${toLauncherPath(SOCKETS.memory)}`,
  };
}

function logOutcome({ log }: Deps, vmi: VirtualMachineInstance, outcome: object): void {
  log.info("outgoing migration ended", { vmi: printKey(keyOf(vmi)), ...outcome });
}

/** Sets the downtime limit for an iteration of the memory copy. A failure is only logged. */
async function limitDowntime(
  { vmi, migration, run, deps }: OutgoingMigration,
  connection: HypervisorConnection,
  iteration: number,
): Promise<void> {
  const { maxDowntimeMs } = readMigrationLimits(migration);
  const isEmulated = usesEmulation(deps.kubevirts.list()[0]);
  const limits = { maxDowntimeMs, isEmulated };
  const limitMs = run.isDisrupted ? UNLIMITED_DOWNTIME_MS : downtimeAt(iteration, limits);
  try {
    await connection.setMaxDowntime(domainNameOf(vmi), limitMs);
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("failed to limit the downtime of a migration", {
      vmi: printKey(keyOf(vmi)),
      reason,
    });
  }
}

/** Describes why a migration failed. Ignores libvirt's message if this process aborted a stalled migration: it reports only the abort. */
function describeFailure({ migration, run }: OutgoingMigration, error: unknown): string {
  if (!run.isStalled) return messageOf(error);
  const seconds = readMigrationLimits(migration).stallTimeoutMs / 1000;
  return `no data was transferred for ${String(seconds)} s (progressTimeout)`;
}

/**
 * Migrates the guest, and then reports to the target's node that the guest has left. The target's node resumes the guest only after this
 * report. A failure is recorded in `run.call`.
 */
async function migrate(
  outgoing: OutgoingMigration,
  connection: HypervisorConnection,
): Promise<void> {
  const { vmi, run, wake, deps } = outgoing;
  try {
    await limitDowntime(outgoing, connection, 1);
    // The migration call blocks `connection`, so the session's connection sets the downtime limit.
    connection.onEvent((event) => {
      const { session } = outgoing;
      if (event.kind !== "migrationIteration" || session === undefined) return;
      void limitDowntime(outgoing, session.connection, event.iteration);
    });
    await connection.migrateDomain(domainNameOf(vmi), buildMigration(outgoing));
    run.call = "arrived";
    const { relay } = run;
    await relay?.reportGone();
    run.isDepartureConfirmed = relay !== undefined && relay === run.relay;
    logOutcome(deps, vmi, { isAcknowledged: run.isDepartureConfirmed });
  } catch (error) {
    const reason = describeFailure(outgoing, error);
    // If the guest has already arrived, only the call of `reportGone` failed. The next pass repeats the call.
    if (run.call === "running") run.call = { failure: reason };
    logOutcome(deps, vmi, { reason });
  }
  await connection.close();
  wake();
}

/** Starts the migration. The end of the migration wakes the loop. @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT */
async function startMigration(outgoing: OutgoingMigration, { launcher }: Session): Promise<void> {
  const { run, deps } = outgoing;
  const connection = await deps.hypervisor.open({ kind: "socket", fd: launcher.socketFd });
  run.call = "running";
  void migrate(outgoing, connection);
}

export const PROGRESS_INTERVAL_MS = 2_000;

function recordJob({ migration, run, deps }: OutgoingMigration, job: JobStats): void {
  const isMoving = job.state === "running" && job.move === "out";
  const nowMs = deps.clock.monotonicMs();
  if (run.progressMs === undefined || job.processedBytes !== run.job?.processedBytes) {
    run.progressMs = nowMs;
  }
  run.isStalled =
    isMoving && nowMs - run.progressMs >= readMigrationLimits(migration).stallTimeoutMs;
  run.job = isMoving ? job : undefined;
}

async function reportProgress({ vmi, run, deps }: OutgoingMigration): Promise<void> {
  const { job, reportedMs } = run;
  const nowMs = deps.clock.monotonicMs();
  if (job === undefined || (reportedMs !== undefined && nowMs - reportedMs < PROGRESS_INTERVAL_MS))
    return;
  const { totalBytes, processedBytes, remainingBytes, memoryBytesPerSecond } = job;
  const progress = {
    ...(totalBytes !== undefined && { dataTotalBytes: totalBytes }),
    ...(processedBytes !== undefined && { dataProcessedBytes: processedBytes }),
    ...(remainingBytes !== undefined && { dataRemainingBytes: remainingBytes }),
    ...(memoryBytesPerSecond !== undefined && { memoryBytesPerSecond }),
  };
  run.reportedMs = nowMs;
  await writeMigrationState(vmi, { progress }, { deps });
}

export function createMigrationMetrics({
  vmis,
  migrationRuns,
  nodeName,
}: Pick<Deps, "vmis" | "migrationRuns" | "nodeName">): () => Promise<readonly MetricFamily[]> {
  return () => {
    const outgoing = vmis.list().flatMap((vmi) => {
      const job = migrationRuns.findJob(vmi.metadata.uid ?? "");
      return job === undefined ? [] : [{ vmi, job }];
    });
    return Promise.resolve(outgoingMigrationFamilies(outgoing, nodeName));
  };
}

const NO_JOB: JobStats = { state: "none" };

async function readJob(connection: HypervisorConnection, name: string): Promise<JobStats> {
  try {
    return await connection.readJob(name);
  } catch (error) {
    if (isAppError(error, "LIBVIRT_NO_DOMAIN") || isAppError(error, "LIBVIRT_NOT_RUNNING")) {
      return NO_JOB;
    }
    throw error;
  }
}

/** Reads the job before the domain. In the reverse order, a migration that ends between the two reads would look like a pause. */
async function observeMigration({ vmi, session }: OutgoingMigration): Promise<{
  readonly domain: DomainInfo | undefined;
  readonly job: JobStats;
}> {
  if (session === undefined) return { domain: undefined, job: NO_JOB };
  const name = domainNameOf(vmi);
  session.markObserved();
  const job = await readJob(session.connection, name);
  return { job, domain: await session.connection.findDomain(name) };
}

export function targetEndpoint({ migration }: Pick<OutgoingMigration, "migration">): RelayEndpoint {
  const { targetNodeAddress: address = "", targetDirectMigrationNodePorts } = migration;
  return { address, ports: parsePorts(targetDirectMigrationNodePorts) };
}

async function startRelay(outgoing: OutgoingMigration): Promise<void> {
  const { session, run, wake, deps } = outgoing;
  if (session === undefined) return;
  const endpoint = targetEndpoint(outgoing);
  run.useRelay(
    await deps.relays.send(buildRelayRequest(outgoing, session), endpoint),
    endpoint,
    wake,
  );
}

async function notifyTarget({ run }: OutgoingMigration): Promise<void> {
  try {
    await run.relay?.reportGone();
    run.isDepartureConfirmed = run.relay !== undefined;
  } catch (error) {
    // The next pass starts a new relay, because the target may have replaced its relay in the meantime.
    run.stopRelay();
    throw error;
  }
}

async function reportFailed(
  { vmi, deps }: OutgoingMigration,
  { reason, isAborted }: Extract<OutgoingStep, { kind: "reportFailed" }>,
): Promise<void> {
  const failure = { failed: true, failureReason: reason } as const;
  await writeMigrationState(vmi, isAborted ? { ...failure, abortStatus: "Succeeded" } : failure, {
    deps,
  });
  deps.log.warn("migration failed; the guest stays on this node", {
    vmi: printKey(keyOf(vmi)),
    reason,
  });
}

async function reportStart({ vmi, deps }: OutgoingMigration): Promise<void> {
  const startTimestamp = printTime(deps.clock.now());
  await writeMigrationState(vmi, { startTimestamp, mode: "PreCopy" }, { deps, test: "all" });
}

/** Removes the downtime limit, so that QEMU pauses the guest at the next iteration and completes the migration. */
async function disrupt({ vmi, run, session, deps }: OutgoingMigration): Promise<void> {
  if (session === undefined) return;
  run.isDisrupted = true;
  await session.connection.setMaxDowntime(domainNameOf(vmi), UNLIMITED_DOWNTIME_MS);
  await writeMigrationState(vmi, { mode: "Paused" }, { deps });
  deps.log.info("the guest is paused for the rest of its migration", { vmi: printKey(keyOf(vmi)) });
}

const STEP_HANDLERS: Readonly<
  Partial<Record<OutgoingStep["kind"], (migration: OutgoingMigration) => Promise<void>>>
> = {
  startRelay,
  reportStart,
  migrate: async (outgoing) => {
    if (outgoing.session !== undefined) await startMigration(outgoing, outgoing.session);
  },
  disrupt,
  abort: async ({ vmi, session }) => {
    await session?.connection.abortJob(domainNameOf(vmi));
  },
  resume: async ({ vmi, session }) => {
    await session?.connection.resumeDomain(domainNameOf(vmi));
  },
  reportStopped: notifyTarget,
  reportLeft: ({ vmi, deps }) => writeMigrationState(vmi, { sourceNodeDomainLeft: true }, { deps }),
  announceMacs: ({ announce }) => announce(),
  stopRelay: ({ run }) => {
    run.stopRelay();
    return Promise.resolve();
  },
};

async function perform(step: OutgoingStep, outgoing: OutgoingMigration): Promise<void> {
  if (step.kind === "reportFailed") await reportFailed(outgoing, step);
  else await STEP_HANDLERS[step.kind]?.(outgoing);
}

/** Runs one pass over an outgoing migration. Returns true if the guest has left this node. */
export async function sendGuest(outgoing: OutgoingMigration): Promise<boolean> {
  const { migration, run } = outgoing;
  const hasArrived = run.call === "arrived";
  const { domain, job } = hasArrived
    ? { domain: undefined, job: NO_JOB }
    : await observeMigration(outgoing);
  recordJob(outgoing, job);
  const steps = planOutgoing({
    migration,
    domain,
    job,
    call: run.call,
    isAcknowledged: run.isDepartureConfirmed,
    isStalled: run.isStalled,
    isLate: mayDisruptNow(migration, outgoing.vmi, outgoing.deps.clock.now()),
    hasRelay: run.connectsTo(targetEndpoint(outgoing)),
  });
  for (const step of steps) {
    try {
      await perform(step, outgoing);
    } catch (error) {
      const { vmi, deps } = outgoing;
      const fields = { vmi: printKey(keyOf(vmi)), step: step.kind, reason: messageOf(error) };
      deps.log.warn("a step of an outgoing migration failed", fields);
      throw error;
    }
  }
  await reportProgress(outgoing);
  return hasArrived || domain?.move === "left";
}
