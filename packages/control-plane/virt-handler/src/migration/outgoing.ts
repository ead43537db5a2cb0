// SPDX-License-Identifier: Apache-2.0
// The source side of a migration.
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

interface Outgoing {
  readonly vmi: VirtualMachineInstance;
  readonly migration: OutgoingFacts["migration"];
  readonly move: MigrationRun;
  /** Undefined when the launcher does not answer or has ended. */
  readonly session: Session | undefined;
  readonly wake: () => void;
  readonly announce: () => Promise<void>;
  readonly deps: Deps;
}

export function buildRelayRequest(
  { vmi, migration }: Pick<Outgoing, "vmi" | "migration">,
  { launcher }: Session,
): RelayRequest {
  const { directoryFd } = launcher;
  const disks = disksToCopy(vmi.spec).length;
  return { migration, disks, silenceMs: readMigrationLimits(migration).silenceMs, directoryFd };
}

/** Uses the sockets in the launcher's volume, by their paths inside the launcher. */
function buildMigration({ vmi, migration }: Outgoing): Migration {
  const at = (socket: string): string => `${names.LAUNCHER_DIR}/${socket}`;
  const targets = disksToCopy(vmi.spec);
  const { bandwidthMibPerSecond, throttles, allowsUnsafe } = readMigrationLimits(migration);
  return {
    ...(bandwidthMibPerSecond !== undefined && { bandwidthMibPerSecond }),
    throttles,
    allowsUnsafe,
    ...(targets.length > 0 && { disks: { uri: `unix://${at(SOCKETS.disks)}`, targets } }),
    peerUri: `qemu+unix:///session?socket=${at(SOCKETS.peer)}`,
    memoryUri: `unix://${at(SOCKETS.memory)}`,
  };
}

function logOutcome({ log }: Deps, vmi: VirtualMachineInstance, outcome: object): void {
  log.info("a guest's departure has come to its end", { vmi: printKey(keyOf(vmi)), ...outcome });
}

/** If setting the limit fails, QEMU's default applies. */
async function limitDowntime(
  { vmi, migration, move, deps }: Outgoing,
  connection: HypervisorConnection,
  iteration: number,
): Promise<void> {
  const { maxDowntimeMs } = readMigrationLimits(migration);
  const isEmulated = usesEmulation(deps.kubevirts.list()[0]);
  const atMost = { maxDowntimeMs, isEmulated };
  const limitMs = move.isDisrupted ? UNLIMITED_DOWNTIME_MS : downtimeAt(iteration, atMost);
  try {
    await connection.setMaxDowntime(domainNameOf(vmi), limitMs);
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("the downtime of a move is not limited", { vmi: printKey(keyOf(vmi)), reason });
  }
}

/** The reason of a failure, for people. libvirt reports a cancellation when this process aborted a stalled migration. */
function describeFailure({ migration, move }: Outgoing, error: unknown): string {
  if (!move.isStalled) return messageOf(error);
  const seconds = readMigrationLimits(migration).silenceMs / 1000;
  return `nothing came over for ${String(seconds)} s (progressTimeout)`;
}

/** Runs the migration to its end. The guest then stays paused on the target until the target's node knows that it has left here. */
async function awaitMigration(
  departure: Outgoing,
  connection: HypervisorConnection,
): Promise<void> {
  const { vmi, move, wake, deps } = departure;
  try {
    await limitDowntime(departure, connection, 1);
    // This connection is busy until the migration ends, so the limit is set on the session's connection.
    connection.onEvent((event) => {
      const { session } = departure;
      if (event.kind !== "migrationIteration" || session === undefined) return;
      void limitDowntime(departure, session.connection, event.iteration);
    });
    await connection.migrateDomain(domainNameOf(vmi), buildMigration(departure));
    move.call = "arrived";
    const { relay } = move;
    await relay?.reportGone();
    move.isConfirmed = relay !== undefined && relay === move.relay;
    logOutcome(deps, vmi, { isAcknowledged: move.isConfirmed });
  } catch (error) {
    const reason = describeFailure(departure, error);
    // The next pass retries reporting the guest's departure.
    if (move.call === "running") move.call = { failure: reason };
    logOutcome(deps, vmi, { reason });
  }
  await connection.close();
  wake();
}

/**
 * Starts the migration. Its outcome is recorded in `move`, and wakes the loop.
 * @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT; nothing has started then
 */
async function startMigration(departure: Outgoing, { launcher }: Session): Promise<void> {
  const { move, deps } = departure;
  const connection = await deps.hypervisor.open({ kind: "socket", fd: launcher.socketFd });
  move.call = "running";
  void awaitMigration(departure, connection);
}

/** Minimum interval between progress reports, milliseconds. */
export const PROGRESS_INTERVAL_MS = 2_000;

function recordJob({ migration, move, deps }: Outgoing, job: JobStats): void {
  const isMoving = job.state === "running" && job.move === "out";
  const nowMs = deps.clock.monotonicMs();
  if (move.progressMs === undefined || job.processedBytes !== move.job?.processedBytes) {
    move.progressMs = nowMs;
  }
  move.isStalled = isMoving && nowMs - move.progressMs >= readMigrationLimits(migration).silenceMs;
  move.job = isMoving ? job : undefined;
}

/** Writes the progress at most once in each interval. */
async function reportProgress({ vmi, move, deps }: Outgoing): Promise<void> {
  const { job, reportedMs } = move;
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
  move.reportedMs = nowMs;
  await writeMigrationState(vmi, { progress }, { deps });
}

export function createMigrationMetrics({
  vmis,
  migrationRuns,
  nodeName,
}: Pick<Deps, "vmis" | "migrationRuns" | "nodeName">): () => Promise<readonly MetricFamily[]> {
  return () => {
    const leaving = vmis.list().flatMap((vmi) => {
      const job = migrationRuns.jobOf(vmi.metadata.uid ?? "");
      return job === undefined ? [] : [{ vmi, job }];
    });
    return Promise.resolve(outgoingMigrationFamilies(leaving, nodeName));
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

/** Reads the job before the domain: if there is no job and the domain is paused after that, no migration is running. */
async function observeMigration({
  vmi,
  session,
}: Outgoing): Promise<{ readonly domain: DomainInfo | undefined; readonly job: JobStats }> {
  if (session === undefined) return { domain: undefined, job: NO_JOB };
  const name = domainNameOf(vmi);
  session.markObserved();
  const job = await readJob(session.connection, name);
  return { job, domain: await session.connection.findDomain(name) };
}

export function targetEndpoint({ migration }: Pick<Outgoing, "migration">): RelayEndpoint {
  const { targetNodeAddress: address = "", targetDirectMigrationNodePorts } = migration;
  return { address, ports: parsePorts(targetDirectMigrationNodePorts) };
}

async function startRelay(departure: Outgoing): Promise<void> {
  const { session, move, wake, deps } = departure;
  if (session === undefined) return;
  const to = targetEndpoint(departure);
  move.useRelay(await deps.relays.send(buildRelayRequest(departure, session), to), to, wake);
}

async function notifyTarget({ move }: Outgoing): Promise<void> {
  try {
    await move.relay?.reportGone();
    move.isConfirmed = move.relay !== undefined;
  } catch (error) {
    // Another relay may listen at the old address by now.
    move.stopRelay();
    throw error;
  }
}

async function reportFailed(
  { vmi, deps }: Outgoing,
  { reason, isAborted }: Extract<OutgoingStep, { kind: "reportFailed" }>,
): Promise<void> {
  const failure = { failed: true, failureReason: reason } as const;
  await writeMigrationState(vmi, isAborted ? { ...failure, abortStatus: "Succeeded" } : failure, {
    deps,
  });
  deps.log.warn("a guest that was to leave stays", { vmi: printKey(keyOf(vmi)), reason });
}

async function reportStart({ vmi, deps }: Outgoing): Promise<void> {
  const startTimestamp = printTime(deps.clock.now());
  await writeMigrationState(vmi, { startTimestamp, mode: "PreCopy" }, { deps, test: "all" });
}

/** Raises the allowed downtime so that QEMU pauses the guest at its next iteration. Later iterations do not lower it again. */
async function disrupt({ vmi, move, session, deps }: Outgoing): Promise<void> {
  if (session === undefined) return;
  move.isDisrupted = true;
  await session.connection.setMaxDowntime(domainNameOf(vmi), UNLIMITED_DOWNTIME_MS);
  await writeMigrationState(vmi, { mode: "Paused" }, { deps });
  deps.log.info("a guest stands still for the rest of its way", { vmi: printKey(keyOf(vmi)) });
}

const PERFORM: Readonly<Partial<Record<OutgoingStep["kind"], (of: Outgoing) => Promise<void>>>> = {
  startRelay,
  reportStart,
  migrate: async (departure) => {
    if (departure.session !== undefined) await startMigration(departure, departure.session);
  },
  disrupt,
  abort: async ({ vmi, session }) => {
    await session?.connection.abortJob(domainNameOf(vmi));
  },
  goOn: async ({ vmi, session }) => {
    await session?.connection.resumeDomain(domainNameOf(vmi));
  },
  tellGone: notifyTarget,
  reportLeft: ({ vmi, deps }) => writeMigrationState(vmi, { sourceNodeDomainLeft: true }, { deps }),
  announceMacs: ({ announce }) => announce(),
  stopRelay: ({ move }) => {
    move.stopRelay();
    return Promise.resolve();
  },
};

async function perform(step: OutgoingStep, departure: Outgoing): Promise<void> {
  if (step.kind === "reportFailed") await reportFailed(departure, step);
  else await PERFORM[step.kind]?.(departure);
}

/** One pass; safe to repeat. Failed steps are retried. Returns true when the guest has left this node and no further work is due. */
export async function sendGuest(departure: Outgoing): Promise<boolean> {
  const { migration, move } = departure;
  const hasArrived = move.call === "arrived";
  const { domain, job } = hasArrived
    ? { domain: undefined, job: NO_JOB }
    : await observeMigration(departure);
  recordJob(departure, job);
  const steps = planOutgoing({
    migration,
    domain,
    job,
    call: move.call,
    isAcknowledged: move.isConfirmed,
    isStalled: move.isStalled,
    isLate: mayDisruptNow(migration, departure.vmi, departure.deps.clock.now()),
    hasRelay: move.leadsTo(targetEndpoint(departure)),
  });
  for (const step of steps) {
    try {
      await perform(step, departure);
    } catch (error) {
      const { vmi, deps } = departure;
      const fields = { vmi: printKey(keyOf(vmi)), step: step.kind, reason: messageOf(error) };
      deps.log.warn("a step of a guest's departure failed", fields);
      throw error;
    }
  }
  await reportProgress(departure);
  return hasArrived || domain?.move === "left";
}
