// SPDX-License-Identifier: Apache-2.0
import { isVmiFinal, type MigrationState } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { findPodFailure } from "../../status/sync-error.ts";
import { hasPodEnded, findMigrationState, isTargetReady, type MigrationFacts } from "./facts.ts";
import { findPausedGuestMessage } from "../incoming.ts";
import { findTargetNicProblem } from "./target-nics.ts";
import { migrationProblem } from "../requests.ts";
import { hasMigrationBegun } from "./queue.ts";
import { toMs } from "@patchbay/base";
import { completionTimeoutMs } from "../limits.ts";

/** Maximum age of an unschedulable target pod. Source of all timeouts: KubeVirt pkg/virt-controller/watch/migration. */
const SCHEDULING_TIMEOUT_MS = 300_000;
/** Maximum time from the creation of the target pod until the target is ready for the guest. */
const READY_TIMEOUT_MS = 900_000;
/** Maximum time from the target's readiness until the source starts to migrate the guest. */
const BEGIN_TIMEOUT_MS = 900_000;
/** Maximum time from the end of the source pod until the target node reports that the guest runs there. */
const ARRIVAL_TIMEOUT_MS = 60_000;
/** Like {@link ARRIVAL_TIMEOUT_MS}, for a target that has detected the guest's domain and only needs to resume the guest. */
const RESUME_TIMEOUT_MS = 300_000;
/** Maximum time from an abort request until a node reports where the guest runs. */
const ABORT_REPORT_TIMEOUT_MS = 300_000;
/**
 * Applies instead of {@link ABORT_REPORT_TIMEOUT_MS} while the target pod runs and the source node has not reported the result of the
 * abort. After this time, the target pod can be ended safely, because the target resumes the guest only after the source's report.
 */
const ABORT_RESULT_TIMEOUT_MS = 900_000;

interface Deadline {
  readonly kind: "pod" | "completion" | "arrival" | "abortReport";
  /** Time of the deadline, in milliseconds since the Unix epoch. */
  readonly atMs: number;
  readonly why: string;
}

function buildDeadline(
  kind: Deadline["kind"],
  since: string | undefined,
  limit: { readonly withinMs: number; readonly why: string },
): readonly Deadline[] {
  const sinceMs = toMs(since);
  return sinceMs === undefined ? [] : [{ kind, atMs: sinceMs + limit.withinMs, why: limit.why }];
}

function printMinutes(ms: number): string {
  return `${String(ms / 60_000)} minutes`;
}

function describeFailedIfaces(facts: MigrationFacts): string {
  const { targetAttachments = [] } = findMigrationState(facts) ?? {};
  const failedAttachments = targetAttachments.filter(({ state }) => state === "Failed");
  return failedAttachments
    .map(({ name, message = "" }) => `; interface ${name}: ${message}`)
    .join("");
}

function describeSilence(sourceNode: string, task: string, period: string): string {
  return `virt-handler of the source node ${sourceNode} did not ${task} within ${period}; check that it runs`;
}

/** Returns the time at which the target was first observed to be ready. Returns the current time if the status does not contain it yet. */
function findReadyTime({ migration, now }: MigrationFacts): string {
  const transition = migration?.status?.phaseTransitionTimestamps?.find(
    ({ phase }) => phase === "TargetReady",
  );
  return transition?.phaseTransitionTimestamp ?? now;
}

function listPodDeadlines(facts: MigrationFacts): readonly Deadline[] {
  const { targetPod } = facts;
  if (targetPod === undefined) return [];
  const state = findMigrationState(facts);
  if (state !== undefined && isTargetReady(state)) {
    const period = `${printMinutes(BEGIN_TIMEOUT_MS)} after the target was ready`;
    const why = describeSilence(state.sourceNode ?? "", "begin the migration", period);
    return buildDeadline("pod", findReadyTime(facts), { withinMs: BEGIN_TIMEOUT_MS, why });
  }
  const { creationTimestamp: since, name } = targetPod.metadata;
  const scheduledCondition = targetPod.status?.conditions?.find(
    ({ type }) => type === "PodScheduled",
  );
  const isStuck =
    scheduledCondition?.status === "False" && scheduledCondition.reason === "Unschedulable";
  const unscheduledMessage = `no node has taken target pod ${name} within ${printMinutes(SCHEDULING_TIMEOUT_MS)}: ${scheduledCondition?.message ?? ""}`;
  const notReadyMessage = `target pod ${name} was not ready for the guest within ${printMinutes(READY_TIMEOUT_MS)}${describeFailedIfaces(facts)}`;
  return [
    ...(isStuck
      ? buildDeadline("pod", since, { withinMs: SCHEDULING_TIMEOUT_MS, why: unscheduledMessage })
      : []),
    ...buildDeadline("pod", since, { withinMs: READY_TIMEOUT_MS, why: notReadyMessage }),
  ];
}

/** Returns the transfer's deadline. If disruption is allowed, doubles the limit, because QEMU may pause the guest in the second half. */
function findCompletionDeadline(facts: MigrationFacts, state: MigrationState): readonly Deadline[] {
  // Prefers the configuration that virt-controller recorded in the VMI's migration state when the migration started.
  const settings = { ...facts.settings.configuration, ...state.migrationConfiguration };
  const timeoutMs = completionTimeoutMs(settings, facts.guest?.vmi);
  const isDisrupted = settings.allowWorkloadDisruption;
  const withinMs = isDisrupted ? 2 * timeoutMs : timeoutMs;
  const pauseNote = isDisrupted ? ", although it may stand still for half of that" : "";
  const why = `the guest has not moved within ${String(withinMs / 1000)} s (completionTimeoutPerGiB)${pauseNote}`;
  return buildDeadline("completion", state.startTimestamp, { withinMs, why });
}

function findAbortReportDeadline(
  { targetPod }: MigrationFacts,
  state: MigrationState,
): readonly Deadline[] {
  const { abortRequestedTimestamp: since, sourceNodeDomainLeft, sourceNode = "" } = state;
  const timeLimit = `within ${printMinutes(ABORT_REPORT_TIMEOUT_MS)}`;
  if (sourceNodeDomainLeft === true) {
    const why = `the guest is no longer on the source node, and the target does not report ${timeLimit} that it runs there`;
    return buildDeadline("abortReport", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
  }
  if (!hasPodEnded(targetPod)) {
    // No deadline applies while the guest is paused on the target because its devices differ from what was prepared.
    if (findPausedGuestMessage(state) !== undefined) return [];
    const withinMs = ABORT_RESULT_TIMEOUT_MS;
    const period = printMinutes(withinMs);
    const why = describeSilence(sourceNode, "report whether it aborted the migration", period);
    return buildDeadline("abortReport", since, { withinMs, why });
  }
  const why = `the target pod has ended, and the source does not report ${timeLimit} where the guest is`;
  return buildDeadline("abortReport", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
}

function listDeadlines(facts: MigrationFacts): readonly Deadline[] {
  const state = findMigrationState(facts);
  if (state?.startTimestamp === undefined) return listPodDeadlines(facts);
  const { sourceEndedTimestamp, targetNodeDomainDetected } = state;
  const waitMs = targetNodeDomainDetected === true ? RESUME_TIMEOUT_MS : ARRIVAL_TIMEOUT_MS;
  const lost = `the source pod has ended, and the target does not report within ${String(waitMs / 1000)} s that it has the guest`;
  return [
    ...findCompletionDeadline(facts, state),
    ...buildDeadline("arrival", sourceEndedTimestamp, { withinMs: waitMs, why: lost }),
    ...findAbortReportDeadline(facts, state),
  ].toSorted((left, right) => left.atMs - right.atMs);
}

function findPassedDeadline(facts: MigrationFacts, kind?: Deadline["kind"]): Deadline | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  return listDeadlines(facts).find(
    (deadline) => deadline.atMs <= nowMs && (kind === undefined || deadline.kind === kind),
  );
}

export function nextDeadlineMs(facts: MigrationFacts): number | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  const futureDeadlines = listDeadlines(facts).filter(({ atMs }) => atMs > nowMs);
  return futureDeadlines.length === 0
    ? undefined
    : Math.min(...futureDeadlines.map(({ atMs }) => atMs - nowMs));
}

export type Decision =
  | { readonly kind: "wait" }
  | { readonly kind: "begin" }
  | { readonly kind: "schedule" }
  /** Writes the migration state for both nodes, because the target pod is ready. */
  | { readonly kind: "open" }
  | { readonly kind: "continue" }
  /** Requests an abort from the source node. */
  | { readonly kind: "abort"; readonly why: string }
  | { readonly kind: "succeed" }
  | { readonly kind: "fail"; readonly why: string }
  /** Fails the migration and reports the guest as lost, because it runs in neither pod. */
  | { readonly kind: "failWithLostGuest"; readonly why: string }
  /** The VMI's migration state is complete, or the migration object was deleted. */
  | { readonly kind: "closed" };

/** Failure reason of a canceled migration. Source: KubeVirt pkg/virt-controller/watch/migration. */
const CANCELED_MESSAGE = "Migration failed due to being canceled";

const fail = (why: string): Decision => ({ kind: "fail", why });
const failWithLostGuest = (why: string): Decision => ({ kind: "failWithLostGuest", why });

function describePod({ metadata }: Pod): string {
  return `target pod ${metadata.name}`;
}

function findTargetProblem({ targetPod, targetLoss }: MigrationFacts): string | undefined {
  if (targetPod === undefined) return "the target pod was deleted";
  const limit = findPodFailure(targetPod);
  const why = limit === undefined ? "" : `: ${limit.reason}: ${limit.message}`;
  if (hasPodEnded(targetPod))
    return `${describePod(targetPod)} has ended before the guest came${why}`;
  if (targetPod.metadata.deletionTimestamp !== undefined) {
    return `${describePod(targetPod)} is being deleted`;
  }
  if (targetLoss === undefined) return undefined;
  return `node ${targetPod.spec.nodeName ?? ""}, to which the guest was to go, does not answer`;
}

function findReasonToEnd({ guest, migration }: MigrationFacts): string | undefined {
  if (migration === undefined || migration.metadata.deletionTimestamp !== undefined) {
    return CANCELED_MESSAGE;
  }
  if (guest?.vmi.metadata.deletionTimestamp === undefined) return undefined;
  return `VMI ${guest.vmi.metadata.name} is being stopped`;
}

function isReady({ spec, status }: Pod): boolean {
  return spec.nodeName !== undefined && status?.phase === "Running";
}

function findNetworkProblem({ targetAbsences }: MigrationFacts): string | undefined {
  const [firstAbsence] = targetAbsences.values();
  return firstAbsence?.message;
}

function decideWithPod(facts: MigrationFacts, pod: Pod): Decision {
  const problem =
    findTargetProblem(facts) ?? findNetworkProblem(facts) ?? findTargetNicProblem(facts);
  if (problem !== undefined) return fail(problem);
  const passedLimit = findPassedDeadline(facts);
  if (passedLimit !== undefined) return fail(passedLimit.why);
  return isReady(pod) && facts.guest?.pod !== undefined ? { kind: "open" } : { kind: "schedule" };
}

/** Checks whether the guest has exactly one pod, no pods of earlier migrations, and a responsive node. */
function hasOnePod({ guest, leftoverPods }: MigrationFacts): boolean {
  return leftoverPods.length === 0 && guest?.pod !== undefined && guest.nodeLoss === undefined;
}

function decideBeforePod(facts: MigrationFacts): Decision {
  const { guest, noTargetReason, mayBegin } = facts;
  if (guest?.vmi.status?.phase !== "Running") return { kind: "wait" };
  const { namespace = "", name } = guest.vmi.metadata;
  const problem = migrationProblem(guest.vmi, { namespace, name }) ?? noTargetReason;
  if (problem !== undefined) return fail(problem);
  return mayBegin && hasOnePod(facts) ? { kind: "begin" } : { kind: "wait" };
}

/** Decides the next step of a migration that is not yet recorded in the VMI's status. */
function decideBeforeOpen(facts: MigrationFacts): Decision {
  const { guest, migration, targetPod, key } = facts;
  if (migration === undefined) return { kind: "closed" };
  if (guest === undefined) return fail(`the VMI "${key}" does not exist`);
  if (isVmiFinal(guest.vmi)) return fail("Cannot migrate VMI in finalized state.");
  const why = findReasonToEnd(facts);
  if (why !== undefined) return fail(why);
  if (targetPod !== undefined) return decideWithPod(facts, targetPod);
  return hasMigrationBegun(migration) ? fail("the target pod was deleted") : decideBeforePod(facts);
}

/** Decides the next step of a migration that is recorded in the VMI's status, but whose guest has not started to migrate. */
function decideBeforeStart(facts: MigrationFacts): Decision {
  const why =
    findReasonToEnd(facts) ??
    findTargetProblem(facts) ??
    findTargetNicProblem(facts) ??
    findPassedDeadline(facts)?.why;
  if (why !== undefined) return fail(why);
  return hasPodEnded(facts.guest?.pod) ? fail("the guest has ended") : { kind: "continue" };
}

function decideWithoutSource(facts: MigrationFacts): Decision | undefined {
  if (!hasPodEnded(facts.guest?.pod)) return undefined;
  if (hasPodEnded(facts.targetPod)) return failWithLostGuest("both pods of the guest have ended");
  const passedLimit = findPassedDeadline(facts, "arrival");
  return passedLimit === undefined ? { kind: "continue" } : failWithLostGuest(passedLimit.why);
}

/** Decides the next step if an abort request came too late, because the guest had already left the source. */
function decideAfterDeparture(facts: MigrationFacts, state: MigrationState): Decision {
  const { guest, targetPod } = facts;
  if (hasPodEnded(targetPod)) {
    const why = findTargetProblem(facts) ?? "the target pod has ended";
    return failWithLostGuest(`the guest had left its node, and is lost at its target: ${why}`);
  }
  const { deletionTimestamp, name = "" } = guest?.vmi.metadata ?? {};
  if (deletionTimestamp === undefined) return { kind: "continue" };
  if (findPausedGuestMessage(state) !== undefined)
    return failWithLostGuest(`VMI ${name} is being stopped`);
  const missedReport = findPassedDeadline(facts, "abortReport");
  return missedReport === undefined ? { kind: "continue" } : failWithLostGuest(missedReport.why);
}

/** Decides the next step after the guest started to migrate. The guest may be on either node. */
function decideWhileMigrating(facts: MigrationFacts, state: MigrationState): Decision {
  const withoutSource = decideWithoutSource(facts);
  if (withoutSource !== undefined) return withoutSource;
  const why = findReasonToEnd(facts) ?? findTargetProblem(facts) ?? findPassedDeadline(facts)?.why;
  if (why === undefined) return { kind: "continue" };
  if (state.abortRequested !== true) return { kind: "abort", why };
  if (state.sourceNodeDomainLeft === true) return decideAfterDeparture(facts, state);
  const missedReport = findPassedDeadline(facts, "abortReport");
  return missedReport === undefined ? { kind: "continue" } : fail(missedReport.why);
}

export function decide(facts: MigrationFacts): Decision {
  const state = findMigrationState(facts);
  if (state === undefined) return decideBeforeOpen(facts);
  if (state.completed === true) return { kind: "closed" };
  // A guest that runs on the target has migrated, even if a node reported a failure or an abort.
  if (state.targetNodeDomainReadyTimestamp !== undefined) return { kind: "succeed" };
  if (state.failed === true)
    return fail(state.failureReason ?? "source node reported migration failed");
  if (state.startTimestamp === undefined) return decideBeforeStart(facts);
  return decideWhileMigrating(facts, state);
}
