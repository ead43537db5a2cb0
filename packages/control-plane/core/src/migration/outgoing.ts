// SPDX-License-Identifier: Apache-2.0
// Plans the source node's steps. Never starts a migration that has a recorded start time.
import type { MigrationState } from "@patchbay/api";
import type { DomainInfo, JobStats } from "../interfaces/hypervisor.ts";

export interface OutgoingFacts {
  readonly migration: MigrationState;
  /** Domain of the guest. Undefined if the guest has no domain or libvirt does not respond. */
  readonly domain: DomainInfo | undefined;
  readonly job: JobStats;
  readonly hasRelay: boolean;
  /** State of this process's libvirt call that migrates the guest. Undefined before the call. */
  readonly call: undefined | "running" | "arrived" | { readonly failure: string };
  readonly isStalled: boolean;
  /** Whether the completion timeout has passed and the configuration allows disruption. */
  readonly isLate: boolean;
  /** Whether the target has acknowledged over the relay that the guest has stopped on this node. */
  readonly isAcknowledged: boolean;
}

export type OutgoingWait = "target" | "guest" | "call" | "handover" | "end";

/** Step on the source node. Every step is idempotent except `migrate`, which is planned at most once. */
export type OutgoingStep =
  | { readonly kind: "startRelay" }
  /** Writes the start time, so that no process starts the migration again. */
  | { readonly kind: "reportStart" }
  | { readonly kind: "migrate" }
  /** Raises the downtime limit, so that QEMU pauses the guest during the remaining transfer. */
  | { readonly kind: "disrupt" }
  | { readonly kind: "abort" }
  /** Resumes a guest that libvirt paused for the final transfer before losing the job. */
  | { readonly kind: "resume" }
  /** Reports to the target that the guest has stopped on this node. */
  | { readonly kind: "reportStopped" }
  /** Writes to the status that the guest has left this node, in response to an abort request. */
  | { readonly kind: "reportLeft" }
  | { readonly kind: "stopRelay" }
  /** Announces the guest's MACs from this node, because switches may have learned the MACs at the target. */
  | { readonly kind: "announceMacs" }
  | { readonly kind: "reportFailed"; readonly reason: string; readonly isAborted: boolean }
  | { readonly kind: "wait"; readonly for: OutgoingWait };

const WAIT_FOR_END: readonly OutgoingStep[] = [{ kind: "wait", for: "end" }];

/** Reports the failure before the resume, so that the guest never runs on both nodes. */
function planSourceResume(facts: OutgoingFacts): readonly OutgoingStep[] {
  if (facts.migration.failed === true) return [{ kind: "resume" }, ...WAIT_FOR_END];
  const reason = "its libvirt ended before the handover, and the guest continues here";
  return [...planSourceFailure(facts, reason), { kind: "resume" }];
}

function planSourceFailure(facts: OutgoingFacts, reason: string): readonly OutgoingStep[] {
  const isAborted = facts.migration.abortRequested === true;
  const relaySteps = facts.hasRelay ? [{ kind: "stopRelay" } as const] : [];
  return [...relaySteps, { kind: "announceMacs" }, { kind: "reportFailed", reason, isAborted }];
}

/**
 * Reports the guest's stop. The relay stays open, because a restarted target needs the report
 * again.
 */
function planHandover(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { abortRequested, sourceNodeDomainLeft, targetNodeDomainReadyTimestamp } = facts.migration;
  if (targetNodeDomainReadyTimestamp !== undefined) {
    return facts.hasRelay ? [{ kind: "stopRelay" }, ...WAIT_FOR_END] : WAIT_FOR_END;
  }
  const hasReply = abortRequested !== true || sourceNodeDomainLeft === true;
  const answer = hasReply ? [] : [{ kind: "reportLeft" } as const];
  if (facts.hasRelay && facts.isAcknowledged) return [...answer, { kind: "wait", for: "handover" }];
  const relaySteps = facts.hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [...answer, ...relaySteps, { kind: "reportStopped" }, { kind: "wait", for: "handover" }];
}

function begin({ migration, hasRelay }: OutgoingFacts): readonly OutgoingStep[] {
  const { targetNodeAddress = "", targetDirectMigrationNodePorts: ports = {} } = migration;
  const isReady = targetNodeAddress !== "" && Object.keys(ports).length > 0;
  if (!isReady) return [{ kind: "wait", for: "target" }];
  const relaySteps = hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [
    ...relaySteps,
    // This node announces again, because a CNI plugin on the target may have announced the MACs.
    { kind: "announceMacs" },
    { kind: "reportStart" } as const,
    { kind: "migrate" } as const,
    { kind: "wait", for: "call" },
  ];
}

/** Plans the steps while the guest is on the source and libvirt has no active migration. */
function decideBeforeStart(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, call } = facts;
  if (typeof call === "object") return planSourceFailure(facts, call.failure);
  if (migration.abortRequested === true) return planSourceFailure(facts, "it was cancelled");
  // An earlier process started the migration, and the guest is still here: the migration has
  // failed.
  if (migration.startTimestamp !== undefined)
    return planSourceFailure(facts, "it ended, and the guest is here");
  return begin(facts);
}

function decideWhileMigrating(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, isStalled, isLate } = facts;
  const waitStep = { kind: "wait", for: "call" } as const;
  if (isStalled || migration.abortRequested === true) return [{ kind: "abort" }, waitStep];
  return isLate && migration.mode !== "Paused" ? [{ kind: "disrupt" }, waitStep] : [waitStep];
}

/** Considers process, libvirt job and domain, because their reports may differ briefly. */
function isMigratingOut({ domain, job, call }: OutgoingFacts): boolean {
  return call === "running" || job.move === "out" || domain?.move === "leaving";
}

function isPausedWithoutJob({ domain, job, call }: OutgoingFacts): boolean {
  return domain?.move === "leaving" && job.state === "none" && call !== "running";
}

export function planOutgoing(facts: OutgoingFacts): readonly OutgoingStep[] {
  const { migration, domain, call } = facts;
  if (isPausedWithoutJob(facts)) return planSourceResume(facts);
  if (migration.failed === true) return WAIT_FOR_END;
  // The call's result takes precedence, because a launcher that has ended has no `domain`.
  if (call === "arrived" || domain?.move === "left") return planHandover(facts);
  if (domain === undefined) return [{ kind: "wait", for: "guest" }];
  if (isMigratingOut(facts)) return decideWhileMigrating(facts);
  const isOnSource = domain.state === "running" || domain.state === "paused";
  return isOnSource ? decideBeforeStart(facts) : planSourceFailure(facts, "the guest has ended");
}
