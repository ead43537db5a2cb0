// SPDX-License-Identifier: Apache-2.0
// What does the node do that a guest leaves? Pure: from facts alone, so that a virt-handler that has just been started goes on, and
// never begins a second time.
import type { MigrationState } from "@patchbay/api";
import type { DomainInfo, JobStats } from "../ports/index.ts";

/** What is known at the source. */
export interface DepartureFacts {
  /** Open, and from this node. */
  readonly migration: MigrationState;
  /** The guest's, as its libvirt tells it; undefined: it has none, or does not answer. */
  readonly domain: DomainInfo | undefined;
  readonly job: JobStats;
  /** Whether one runs that leads to where the target's node listens now. */
  readonly hasRelay: boolean;
  /** The call of this process, if it has made one: how it ended, while it is not over `running`. */
  readonly call: undefined | "running" | "arrived" | { readonly failure: string };
  /** Whether nothing has come over for longer than it may. */
  readonly isStalled: boolean;
  /** Whether it has taken all its time, and may stand still for the rest of its way. */
  readonly isLate: boolean;
  /** Whether the target's node has said at the other end of that relay that it knows that the guest is off here. */
  readonly isHeard: boolean;
}

/** Why nothing is done now. */
export type DepartureWait = "target" | "guest" | "call" | "handover" | "end";

/** One step; repeated, it does no harm, but for `migrate`, which is made once at most. */
export type DepartureStep =
  | { readonly kind: "startRelay" }
  /** Writes the time, so that nobody begins again. */
  | { readonly kind: "reportStart" }
  /** Sends the guest away. */
  | { readonly kind: "migrate" }
  /** Lets it go whatever is left of it: it stands still meanwhile. */
  | { readonly kind: "disrupt" }
  | { readonly kind: "abort" }
  /** Lets the guest go on here: it stands still on its last part of the way, which nothing goes any more. */
  | { readonly kind: "goOn" }
  /** Tells the target's node that the guest is off here. */
  | { readonly kind: "tellGone" }
  /** Tells whoever wants the migration to end that the guest is no longer here. */
  | { readonly kind: "reportLeft" }
  | { readonly kind: "stopRelay" }
  /** Frames of the guest's MACs from here: switches may have heard them at the target. */
  | { readonly kind: "announceMacs" }
  | { readonly kind: "reportFailed"; readonly reason: string; readonly isAborted: boolean }
  | { readonly kind: "wait"; readonly for: DepartureWait };

const NOTHING: readonly DepartureStep[] = [{ kind: "wait", for: "end" }];

/**
 * libvirt died in the last moment, and has forgotten that it was sending. The target lets the guest go on when it was told so from
 * here, or when this pod has ended, and neither is so: it goes on here. What is told comes first, since from then on nothing there
 * can let it go on.
 */
function takeBack(facts: DepartureFacts): readonly DepartureStep[] {
  if (facts.migration.failed === true) return [{ kind: "goOn" }, ...NOTHING];
  const reason = "its libvirt ended at the last moment, and the guest goes on here";
  return [...stay(facts, reason), { kind: "goOn" }];
}

/** The guest stays here. */
function stay(facts: DepartureFacts, reason: string): readonly DepartureStep[] {
  const isAborted = facts.migration.abortRequested === true;
  const stop = facts.hasRelay ? [{ kind: "stopRelay" } as const] : [];
  return [...stop, { kind: "announceMacs" }, { kind: "reportFailed", reason, isAborted }];
}

/**
 * It is off here since it is there: nobody lets it go on there before that was said. The way stays open until it runs there: a
 * target that has been started anew has to be told again, and says so by other ports.
 */
function handOver(facts: DepartureFacts): readonly DepartureStep[] {
  const { abortRequested, sourceNodeDomainLeft, targetNodeDomainReadyTimestamp } = facts.migration;
  if (targetNodeDomainReadyTimestamp !== undefined) {
    return facts.hasRelay ? [{ kind: "stopRelay" }, ...NOTHING] : NOTHING;
  }
  const isAnswered = abortRequested !== true || sourceNodeDomainLeft === true;
  const answer = isAnswered ? [] : [{ kind: "reportLeft" } as const];
  if (facts.hasRelay && facts.isHeard) return [...answer, { kind: "wait", for: "handover" }];
  const start = facts.hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [...answer, ...start, { kind: "tellGone" }, { kind: "wait", for: "handover" }];
}

function begin({ migration, hasRelay }: DepartureFacts): readonly DepartureStep[] {
  const { targetNodeAddress = "", targetDirectMigrationNodePorts: ports = {} } = migration;
  const isReady = targetNodeAddress !== "" && Object.keys(ports).length > 0;
  if (!isReady) return [{ kind: "wait", for: "target" }];
  const start = hasRelay ? [] : [{ kind: "startRelay" } as const];
  return [
    ...start,
    // The plugins that made the target's NICs may have told their networks of them.
    { kind: "announceMacs" },
    { kind: "reportStart" } as const,
    { kind: "migrate" } as const,
    { kind: "wait", for: "call" },
  ];
}

/** It runs here, and nothing of it is on its way. */
function decideAtRest(facts: DepartureFacts): readonly DepartureStep[] {
  const { migration, call } = facts;
  if (typeof call === "object") return stay(facts, call.failure);
  // Before anything is sent it is ended at once.
  if (migration.abortRequested === true) return stay(facts, "it was cancelled");
  // Somebody has made the call, and the guest is here: a process that died, whose call has failed since.
  if (migration.startTimestamp !== undefined) return stay(facts, "it ended, and the guest is here");
  return begin(facts);
}

function decideOnTheWay(facts: DepartureFacts): readonly DepartureStep[] {
  const { migration, isStalled, isLate } = facts;
  const wait = { kind: "wait", for: "call" } as const;
  if (isStalled || migration.abortRequested === true) return [{ kind: "abort" }, wait];
  return isLate && migration.mode !== "Paused" ? [{ kind: "disrupt" }, wait] : [wait];
}

/** What libvirt and this process say of it may differ for a moment. */
function isOnTheWay({ domain, job, call }: DepartureFacts): boolean {
  return call === "running" || job.move === "out" || domain?.move === "leaving";
}

function isStuck({ domain, job, call }: DepartureFacts): boolean {
  return domain?.move === "leaving" && job.state === "none" && call !== "running";
}

/** The steps, in order. */
export function planDeparture(facts: DepartureFacts): readonly DepartureStep[] {
  const { migration, domain, call } = facts;
  if (isStuck(facts)) return takeBack(facts);
  if (migration.failed === true) return NOTHING;
  // The launcher may have ended since.
  if (call === "arrived" || domain?.move === "left") return handOver(facts);
  if (domain === undefined) return [{ kind: "wait", for: "guest" }];
  if (isOnTheWay(facts)) return decideOnTheWay(facts);
  const isHere = domain.state === "running" || domain.state === "paused";
  return isHere ? decideAtRest(facts) : stay(facts, "the guest has ended");
}
