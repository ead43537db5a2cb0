// SPDX-License-Identifier: Apache-2.0
// What the node does that a guest leaves: looks at the domain and its job, plans, and performs the steps.
import {
  domainNameOf,
  DISRUPTED_MS,
  isAppError,
  isToBeDisrupted,
  messageOf,
  planDeparture,
  type DepartureStep,
} from "@patchbay/core";
import { keyOf, printKey, printTime } from "@patchbay/kube";
import type { DomainInfo, HypervisorConnection, JobStats } from "@patchbay/core/ports";
import type { RelayPlace } from "../relays/own-relays.ts";
import { noteJob, tellProgress } from "./progress.ts";
import { reportMove } from "./report-move.ts";
import { relayRequestOf, sendAway, type Departure } from "./send-away.ts";
import { toldPorts } from "./told-ports.ts";

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

/** The job first: who sees none, and then a guest that stands still on its way, knows that nothing goes on. */
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

/** Where the target's node listens, as it has told. */
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
    // The other end may be another one by now.
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

/** From the next look of QEMU on it stands still, which its iterations do not take back. */
async function disrupt({ vmi, move, session, deps }: Departure): Promise<void> {
  if (session === undefined) return;
  move.isDisrupted = true;
  await session.connection.setMaxDowntime(domainNameOf(vmi), DISRUPTED_MS);
  await reportMove(vmi, { mode: "Paused" }, { deps });
  deps.log.info("a guest stands still for the rest of its way", { vmi: printKey(keyOf(vmi)) });
}

/** How the steps are performed that are no waiting. */
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

/**
 * One pass; safe to repeat. What a step throws is tried again. True: the guest is off here since it is at the target, and nothing
 * else is to be done with it.
 */
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
