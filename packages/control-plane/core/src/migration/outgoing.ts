// SPDX-License-Identifier: Apache-2.0
// Plans the source node's steps for an outgoing guest from facts only, so that a restarted virt-handler continues and never
// starts a migration twice.
import type { MigrationState } from "@patchbay/api";
import type { DomainInfo, JobStats } from "../interfaces/hypervisor.ts";

export interface OutgoingFacts {
  readonly migration: MigrationState;
  /** The guest's domain. Undefined if there is none or libvirt does not respond. */
  readonly domain: DomainInfo | undefined;
  readonly job: JobStats;
  readonly hasRelay: boolean;
  /** This process's call of libvirt to migrate: running, or its result. Undefined without a call. */
  readonly call: undefined | "running" | "arrived" | { readonly failure: string };
  readonly isStalled: boolean;
  /** Whether the completion timeout has passed and disruption is allowed. */
  readonly isLate: boolean;
  /** Whether the target has acknowledged over the relay that the guest is off here. */
  readonly isAcknowledged: boolean;
}

export type OutgoingWait = "target" | "guest" | "call" | "handover" | "end";

/** A step on the source node. Every step is idempotent except `migrate`, which is planned at most once. */
export type OutgoingStep =
  | { readonly kind: "startRelay" }
  /** Writes the start time, so that no process starts the migration again. */
  | { readonly kind: "reportStart" }
  /** Starts the migration in libvirt. */
  | { readonly kind: "migrate" }
  /** Raises the downtime limit, so that the guest pauses for the rest of the transfer. */
  | { readonly kind: "disrupt" }
  | { readonly kind: "abort" }
  /** Resumes the guest here, which was paused for a final transfer that no longer exists. */
  | { readonly kind: "goOn" }
  /** Reports to the target that the guest is off here. */
  | { readonly kind: "tellGone" }
  /** Writes to the status that the guest has left, in response to an abort request. */
  | { readonly kind: "reportLeft" }
  | { readonly kind: "stopRelay" }
  /** Announces the guest's MACs from this node, because switches may have learned them at the target. */
  | { readonly kind: "announceMacs" }
  | { readonly kind: "reportFailed"; readonly reason: string; readonly isAborted: boolean }
  | { readonly kind: "wait"; readonly for: OutgoingWait };

const WAIT_FOR_END: readonly OutgoingStep[] = [{ kind: "wait", for: "end" }];

/**
 * Plans to resume the guest here after libvirt crashed during the final transfer and lost the job. The target did not
 * resume the guest, because it waits for this node's report. The failure is written first, so that it never will.
 */
function resumeOnSource(facts: OutgoingFacts): readonly OutgoingStep[] {
  if (facts.migration.failed === true) return [{ kind: "goOn" }, ...WAIT_FOR_END];
  const reason = "its libvirt ended before the handover, and the guest continues here";
  return [...failOnSource(facts, reason), { kind: "goOn" }];
}

function failOnSource(facts: OutgoingFacts, reason: string): readonly OutgoingStep[] {
  const isAborted = facts.migration.abortRequested === true;
  const stop = facts.hasRelay ? [{ kind: "stopRelay" } as const] : [];
  return [...stop, { kind: "announceMacs" }, { kind: "reportFailed", reason, isAborted }];
}

/**
 * Plans the report to the target that the guest is off here, after which the target resumes it. The relay stays open until
 * the guest runs there, because a restarted target listens on other ports and needs the report again.
 */
function handOver(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { abortRequested, sourceNodeDomainLeft, targetNodeDomainReadyTimestamp } = facts.migration;
  if (targetNodeDomainReadyTimestamp !== undefined) {
    return facts.hasRelay ? [{ kind: "stopRelay" }, ...WAIT_FOR_END] : WAIT_FOR_END;
  }
  const hasReply = abortRequested !== true || sourceNodeDomainLeft === true;
  const answer = hasReply ? [] : [{ kind: "reportLeft" } as const];
  if (facts.hasRelay && facts.isAcknowledged) return [...answer, { kind: "wait", for: "handover" }];
  const start = facts.hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [...answer, ...start, { kind: "tellGone" }, { kind: "wait", for: "handover" }];
}

function begin({ migration, hasRelay }: OutgoingFacts): readonly OutgoingStep[] {
  const { targetNodeAddress = "", targetDirectMigrationNodePorts: ports = {} } = migration;
  const isReady = targetNodeAddress !== "" && Object.keys(ports).length > 0;
  if (!isReady) return [{ kind: "wait", for: "target" }];
  const start = hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [
    ...start,
    // CNI plugins may have announced the guest's MACs at the target; until it moves, its frames must come here.
    { kind: "announceMacs" },
    { kind: "reportStart" } as const,
    { kind: "migrate" } as const,
    { kind: "wait", for: "call" },
  ];
}

/** Plans the steps while the guest is here and no migration is active in libvirt. */
function decideBeforeStart(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, call } = facts;
  if (typeof call === "object") return failOnSource(facts, call.failure);
  if (migration.abortRequested === true) return failOnSource(facts, "it was cancelled");
  // An earlier process started the migration and ended, and the migration has failed.
  if (migration.startTimestamp !== undefined)
    return failOnSource(facts, "it ended, and the guest is here");
  return begin(facts);
}

function decideWhileMigrating(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, isStalled, isLate } = facts;
  const wait = { kind: "wait", for: "call" } as const;
  if (isStalled || migration.abortRequested === true) return [{ kind: "abort" }, wait];
  return isLate && migration.mode !== "Paused" ? [{ kind: "disrupt" }, wait] : [wait];
}

/** Whether the guest is migrating away, according to this process, the job or the domain. These may disagree briefly. */
function isMigratingOut({ domain, job, call }: OutgoingFacts): boolean {
  return call === "running" || job.move === "out" || domain?.move === "leaving";
}

function isPausedWithoutJob({ domain, job, call }: OutgoingFacts): boolean {
  return domain?.move === "leaving" && job.state === "none" && call !== "running";
}

export function planOutgoing(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, domain, call } = facts;
  if (isPausedWithoutJob(facts)) return resumeOnSource(facts);
  if (migration.failed === true) return WAIT_FOR_END;
  // The check of `call` comes first, because the launcher may have ended afterwards.
  if (call === "arrived" || domain?.move === "left") return handOver(facts);
  if (domain === undefined) return [{ kind: "wait", for: "guest" }];
  if (isMigratingOut(facts)) return decideWhileMigrating(facts);
  const isOnSource = domain.state === "running" || domain.state === "paused";
  return isOnSource ? decideBeforeStart(facts) : failOnSource(facts, "the guest has ended");
}
