// SPDX-License-Identifier: Apache-2.0
// Plans the source node's steps of a live migration. Never starts a migration whose start time the VMI's status already records.
import type { MigrationState } from "@patchbay/api";
import type { DomainInfo, JobStats } from "../interfaces/hypervisor.ts";

export interface OutgoingFacts {
  readonly migration: MigrationState;
  /** Domain of the guest. Undefined if the guest has no domain or libvirt does not respond. */
  readonly domain: DomainInfo | undefined;
  readonly job: JobStats;
  readonly hasRelay: boolean;
  /** State or result of the libvirt call with which this process migrates the guest. Undefined if it has made no such call. */
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
  /** Resumes the guest on this node, after libvirt had paused it for the final transfer and lost the job. */
  | { readonly kind: "resume" }
  | { readonly kind: "reportStopped" }
  /** Writes to the status that the guest has left this node, in response to an abort request. */
  | { readonly kind: "reportLeft" }
  | { readonly kind: "stopRelay" }
  /** Announces the guest's MACs from this node, because switches may have learned the MACs at the target. */
  | { readonly kind: "announceMacs" }
  | { readonly kind: "reportFailed"; readonly reason: string; readonly isAborted: boolean }
  | { readonly kind: "wait"; readonly for: OutgoingWait };

const WAIT_FOR_END: readonly OutgoingStep[] = [{ kind: "wait", for: "end" }];

/**
 * Plans to resume the guest on the source after libvirt crashed in the final transfer and lost the job. Reports the failure
 * before the resume, so that the target does not resume the guest too.
 */
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
 * Plans the report that the guest has stopped on this node, after which the target resumes the guest. The relay stays open
 * until the guest runs on the target, because a restarted virt-handler of the target needs the report again.
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
    // A CNI plugin on the target may have announced the guest's MACs, so this node announces them again.
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
  // An earlier virt-handler process started the migration. The guest is still on this node, so the migration has failed.
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

/** Checks whether this process, the libvirt job or the domain reports an outgoing migration. These reports may differ briefly. */
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
  // The result of the libvirt call takes precedence, because the launcher may have ended after the call, and `domain` is then undefined.
  if (call === "arrived" || domain?.move === "left") return planHandover(facts);
  if (domain === undefined) return [{ kind: "wait", for: "guest" }];
  if (isMigratingOut(facts)) return decideWhileMigrating(facts);
  const isOnSource = domain.state === "running" || domain.state === "paused";
  return isOnSource ? decideBeforeStart(facts) : planSourceFailure(facts, "the guest has ended");
}
