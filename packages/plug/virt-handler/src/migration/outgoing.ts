// SPDX-License-Identifier: Apache-2.0
// The source side of a migration.
import { names, usesEmulation, type VirtualMachineInstance } from "@patchbay/api";
import {
  domainNameOf,
  DISRUPTED_MS,
  downtimeAt,
  messageOf,
  moveLimitsOf,
  travellingDisks,
  type DepartureFacts,
  moveFamilies,
  type MetricFamily,
  isAppError,
  isToBeDisrupted,
  planDeparture,
  type DepartureStep,
} from "@patchbay/core";
import { keyOf, printKey, printTime } from "@patchbay/kube";
import type { HypervisorConnection, Migration, JobStats, DomainInfo } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { SOCKETS, type RelayRequest, type RelayPlace } from "../relays/relays.ts";
import type { Session } from "../sessions/sessions.ts";
import type { Move } from "./moves.ts";
import { reportMove, toldPorts } from "./migration-status.ts";

interface Departure {
  readonly vmi: VirtualMachineInstance;
  readonly migration: DepartureFacts["migration"];
  readonly move: Move;
  /** Undefined when the launcher does not answer or has ended. */
  readonly session: Session | undefined;
  readonly wake: () => void;
  /** Announces the guest's MACs from this node. */
  readonly announce: () => Promise<void>;
  readonly deps: Deps;
}

export function relayRequestOf(
  { vmi, migration }: Pick<Departure, "vmi" | "migration">,
  { launcher }: Session,
): RelayRequest {
  const { directoryFd } = launcher;
  const disks = travellingDisks(vmi.spec).length;
  return { migration, disks, silenceMs: moveLimitsOf(migration).silenceMs, directoryFd };
}

/** Uses the sockets in the launcher's volume, by their paths inside the launcher. */
function migrationOf({ vmi, migration }: Departure): Migration {
  const at = (socket: string): string => `${names.LAUNCHER_DIR}/${socket}`;
  const targets = travellingDisks(vmi.spec);
  const { bandwidthMibPerSecond, throttles, allowsUnsafe } = moveLimitsOf(migration);
  return {
    ...(bandwidthMibPerSecond !== undefined && { bandwidthMibPerSecond }),
    throttles,
    allowsUnsafe,
    ...(targets.length > 0 && { disks: { uri: `unix://${at(SOCKETS.disks)}`, targets } }),
    peerUri: `qemu+unix:///session?socket=${at(SOCKETS.peer)}`,
    memoryUri: `unix://${at(SOCKETS.memory)}`,
  };
}

function note({ log }: Deps, vmi: VirtualMachineInstance, outcome: object): void {
  log.info("a guest's departure has come to its end", { vmi: printKey(keyOf(vmi)), ...outcome });
}

/** If setting the limit fails, QEMU's default applies. */
async function limitDowntime(
  { vmi, migration, move, deps }: Departure,
  connection: HypervisorConnection,
  iteration: number,
): Promise<void> {
  const { maxDowntimeMs } = moveLimitsOf(migration);
  const isEmulated = usesEmulation(deps.kubevirts.list()[0]);
  const atMost = { maxDowntimeMs, isEmulated };
  const limitMs = move.isDisrupted ? DISRUPTED_MS : downtimeAt(iteration, atMost);
  try {
    await connection.setMaxDowntime(domainNameOf(vmi), limitMs);
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("the downtime of a move is not limited", { vmi: printKey(keyOf(vmi)), reason });
  }
}

/** The reason of a failure, for people. libvirt reports a cancellation when this process aborted a stalled migration. */
function failureOf({ migration, move }: Departure, error: unknown): string {
  if (!move.isStalled) return messageOf(error);
  const seconds = moveLimitsOf(migration).silenceMs / 1000;
  return `nothing came over for ${String(seconds)} s (progressTimeout)`;
}

/** Runs the migration to its end. The guest then stays paused on the target until the target's node knows that it has left here. */
async function follow(departure: Departure, connection: HypervisorConnection): Promise<void> {
  const { vmi, move, wake, deps } = departure;
  try {
    await limitDowntime(departure, connection, 1);
    // This connection is busy until the migration ends, so the limit is set on the session's connection.
    connection.onEvent((event) => {
      const { session } = departure;
      if (event.kind !== "migrationIteration" || session === undefined) return;
      void limitDowntime(departure, session.connection, event.iteration);
    });
    await connection.migrateDomain(domainNameOf(vmi), migrationOf(departure));
    move.call = "arrived";
    const { relay } = move;
    await relay?.tellGone();
    move.isHeard = relay !== undefined && relay === move.relay;
    note(deps, vmi, { isHeard: move.isHeard });
  } catch (error) {
    const reason = failureOf(departure, error);
    // The next pass retries reporting the guest's departure.
    if (move.call === "running") move.call = { failure: reason };
    note(deps, vmi, { reason });
  }
  await connection.close();
  wake();
}

/**
 * Starts the migration. Its outcome is recorded in `move`, and wakes the loop.
 * @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT; nothing has started then
 */
async function sendAway(departure: Departure, { launcher }: Session): Promise<void> {
  const { move, deps } = departure;
  const connection = await deps.hypervisor.open({ kind: "socket", fd: launcher.socketFd });
  move.call = "running";
  void follow(departure, connection);
}

/** Minimum interval between progress reports, milliseconds. */
export const PROGRESS_MS = 2_000;

/** Records the transferred bytes and since when they have not changed. */
function noteJob({ migration, move, deps }: Departure, job: JobStats): void {
  const isMoving = job.state === "running" && job.move === "out";
  const nowMs = deps.clock.monotonicMs();
  if (move.progressMs === undefined || job.processedBytes !== move.job?.processedBytes) {
    move.progressMs = nowMs;
  }
  move.isStalled = isMoving && nowMs - move.progressMs >= moveLimitsOf(migration).silenceMs;
  move.job = isMoving ? job : undefined;
}

/** Writes the progress at most once in each interval. */
async function tellProgress({ vmi, move, deps }: Departure): Promise<void> {
  const { job, toldMs } = move;
  const nowMs = deps.clock.monotonicMs();
  if (job === undefined || (toldMs !== undefined && nowMs - toldMs < PROGRESS_MS)) return;
  const { totalBytes, processedBytes, remainingBytes, memoryBytesPerSecond } = job;
  const progress = {
    ...(totalBytes !== undefined && { dataTotalBytes: totalBytes }),
    ...(processedBytes !== undefined && { dataProcessedBytes: processedBytes }),
    ...(remainingBytes !== undefined && { dataRemainingBytes: remainingBytes }),
    ...(memoryBytesPerSecond !== undefined && { memoryBytesPerSecond }),
  };
  move.toldMs = nowMs;
  await reportMove(vmi, { progress }, { deps });
}

/** Metrics of the migrations that leave this node. */
export function createMoveSource({
  vmis,
  moves,
  nodeName,
}: Pick<Deps, "vmis" | "moves" | "nodeName">): () => Promise<readonly MetricFamily[]> {
  return () => {
    const leaving = vmis.list().flatMap((vmi) => {
      const job = moves.jobOf(vmi.metadata.uid ?? "");
      return job === undefined ? [] : [{ vmi, job }];
    });
    return Promise.resolve(moveFamilies(leaving, nodeName));
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
async function look({
  vmi,
  session,
}: Departure): Promise<{ readonly domain: DomainInfo | undefined; readonly job: JobStats }> {
  if (session === undefined) return { domain: undefined, job: NO_JOB };
  const name = domainNameOf(vmi);
  session.look();
  const job = await readJob(session.connection, name);
  return { job, domain: await session.connection.findDomain(name) };
}

/** Where the target's relay listens, from the VMI's status. */
export function placeOf({ migration }: Pick<Departure, "migration">): RelayPlace {
  const { targetNodeAddress: address = "", targetDirectMigrationNodePorts } = migration;
  return { address, ports: toldPorts(targetDirectMigrationNodePorts) };
}

async function startRelay(departure: Departure): Promise<void> {
  const { session, move, wake, deps } = departure;
  if (session === undefined) return;
  const to = placeOf(departure);
  move.follow(await deps.relays.send(relayRequestOf(departure, session), to), to, wake);
}

async function tellGone({ move }: Departure): Promise<void> {
  try {
    await move.relay?.tellGone();
    move.isHeard = move.relay !== undefined;
  } catch (error) {
    // Another relay may listen at the old address by now.
    move.stopRelay();
    throw error;
  }
}

async function reportFailed(
  { vmi, deps }: Departure,
  { reason, isAborted }: Extract<DepartureStep, { kind: "reportFailed" }>,
): Promise<void> {
  const told = { failed: true, failureReason: reason } as const;
  await reportMove(vmi, isAborted ? { ...told, abortStatus: "Succeeded" } : told, { deps });
  deps.log.warn("a guest that was to leave stays", { vmi: printKey(keyOf(vmi)), reason });
}

async function reportStart({ vmi, deps }: Departure): Promise<void> {
  const startTimestamp = printTime(deps.clock.now());
  await reportMove(vmi, { startTimestamp, mode: "PreCopy" }, { deps, test: "all" });
}

/** Raises the allowed downtime so that QEMU pauses the guest at its next iteration. Later iterations do not lower it again. */
async function disrupt({ vmi, move, session, deps }: Departure): Promise<void> {
  if (session === undefined) return;
  move.isDisrupted = true;
  await session.connection.setMaxDowntime(domainNameOf(vmi), DISRUPTED_MS);
  await reportMove(vmi, { mode: "Paused" }, { deps });
  deps.log.info("a guest stands still for the rest of its way", { vmi: printKey(keyOf(vmi)) });
}

/** Implementations of all steps except waiting and reporting failure. */
const PERFORM: Readonly<Partial<Record<DepartureStep["kind"], (of: Departure) => Promise<void>>>> =
  {
    startRelay,
    reportStart,
    migrate: async (departure) => {
      if (departure.session !== undefined) await sendAway(departure, departure.session);
    },
    disrupt,
    abort: async ({ vmi, session }) => {
      await session?.connection.abortJob(domainNameOf(vmi));
    },
    goOn: async ({ vmi, session }) => {
      await session?.connection.resumeDomain(domainNameOf(vmi));
    },
    tellGone,
    reportLeft: ({ vmi, deps }) => reportMove(vmi, { sourceNodeDomainLeft: true }, { deps }),
    announceMacs: ({ announce }) => announce(),
    stopRelay: ({ move }) => {
      move.stopRelay();
      return Promise.resolve();
    },
  };

async function perform(step: DepartureStep, departure: Departure): Promise<void> {
  if (step.kind === "reportFailed") await reportFailed(departure, step);
  else await PERFORM[step.kind]?.(departure);
}

/** One pass; safe to repeat. Failed steps are retried. Returns true when the guest has left this node and no further work is due. */
export async function depart(departure: Departure): Promise<boolean> {
  const { migration, move } = departure;
  const hasArrived = move.call === "arrived";
  const { domain, job } = hasArrived ? { domain: undefined, job: NO_JOB } : await look(departure);
  noteJob(departure, job);
  const steps = planDeparture({
    migration,
    domain,
    job,
    call: move.call,
    isHeard: move.isHeard,
    isStalled: move.isStalled,
    isLate: isToBeDisrupted(migration, departure.vmi, departure.deps.clock.now()),
    hasRelay: move.leadsTo(placeOf(departure)),
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
  await tellProgress(departure);
  return hasArrived || domain?.move === "left";
}
