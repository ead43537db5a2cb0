// SPDX-License-Identifier: Apache-2.0
// Decides the next step of a migration. Before the guest starts to migrate, the migration can fail at once. Afterwards the
// guest may be on either node, so the decision waits for a node's report, the end of a pod, or a deadline.
import { isVmiFinal, type MigrationState } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { podFailure } from "../../status/sync-error.ts";
import { isPodOver, findMigrationState, type MigrationFacts } from "./facts.ts";
import { findPausedGuestMessage } from "../incoming.ts";
import { addressProblem } from "./target-nics.ts";
import { migrationProblem } from "../requests.ts";
import { hasMigrationBegun } from "./queue.ts";
import { toMs } from "@patchbay/base";
import { completionTimeoutMs } from "../limits.ts";

/** Time for the scheduler to find a node. Source of these limits: KubeVirt pkg/virt-controller/watch/migration. */
const SCHEDULING_TIMEOUT_MS = 300_000;
/** Time from the creation of the target pod until its node is ready for the guest. */
const READY_TIMEOUT_MS = 900_000;
/** Time from the end of the source pod until the target reports the guest. */
const ARRIVAL_TIMEOUT_MS = 60_000;
/** Longer arrival timeout if the target already has a domain, because its virt-handler may be restarting. */
const RESUME_TIMEOUT_MS = 300_000;
/** Time from an abort request until a node reports: the source, or the target if the guest has left the source. */
const ABORT_REPORT_TIMEOUT_MS = 300_000;

interface Deadline {
  readonly kind: "pod" | "completion" | "arrival" | "abortReport";
  /** Time of the deadline, in milliseconds since 1970. */
  readonly atMs: number;
  readonly why: string;
}

function deadline(
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
  const failing = targetAttachments.filter(({ state }) => state === "Failed");
  return failing.map(({ name, message = "" }) => `; interface ${name}: ${message}`).join("");
}

function podDeadlines(facts: MigrationFacts): readonly Deadline[] {
  const { targetPod } = facts;
  if (targetPod === undefined) return [];
  const { creationTimestamp: since, name } = targetPod.metadata;
  const scheduled = targetPod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const isStuck = scheduled?.status === "False" && scheduled.reason === "Unschedulable";
  const unscheduled = `no node has taken target pod ${name} within ${printMinutes(SCHEDULING_TIMEOUT_MS)}: ${scheduled?.message ?? ""}`;
  const notReady = `target pod ${name} was not ready for the guest within ${printMinutes(READY_TIMEOUT_MS)}${describeFailedIfaces(facts)}`;
  return [
    ...(isStuck
      ? deadline("pod", since, { withinMs: SCHEDULING_TIMEOUT_MS, why: unscheduled })
      : []),
    ...deadline("pod", since, { withinMs: READY_TIMEOUT_MS, why: notReady }),
  ];
}

/** Returns the deadline for the transfer. If disruption is allowed, the guest is paused after half of the time. */
function completionDeadline(facts: MigrationFacts, state: MigrationState): readonly Deadline[] {
  // The configuration at the start of the migration takes precedence.
  const settings = { ...facts.settings.configuration, ...state.migrationConfiguration };
  const onceMs = completionTimeoutMs(settings, facts.guest?.vmi);
  const isDisrupted = settings.allowWorkloadDisruption;
  const withinMs = isDisrupted ? 2 * onceMs : onceMs;
  const still = isDisrupted ? ", although it may stand still for half of that" : "";
  const why = `the guest has not moved within ${String(withinMs / 1000)} s (completionTimeoutPerGiB)${still}`;
  return deadline("completion", state.startTimestamp, { withinMs, why });
}

/** Returns the deadline for a report after an abort request, even if the migration object was deleted. */
function abortReportDeadline(
  { targetPod }: MigrationFacts,
  state: MigrationState,
): readonly Deadline[] {
  const { abortRequestedTimestamp: since, sourceNodeDomainLeft } = state;
  const within = `within ${printMinutes(ABORT_REPORT_TIMEOUT_MS)}`;
  if (sourceNodeDomainLeft === true) {
    const why = `the guest is no longer on the source node, and the target does not report ${within} that it runs there`;
    return deadline("abortReport", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
  }
  if (!isPodOver(targetPod)) return [];
  const why = `the target pod has ended, and the source does not report ${within} where the guest is`;
  return deadline("abortReport", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
}

function listDeadlines(facts: MigrationFacts): readonly Deadline[] {
  const state = findMigrationState(facts);
  if (state?.startTimestamp === undefined) return podDeadlines(facts);
  const { sourceEndedTimestamp, targetNodeDomainDetected } = state;
  const waitMs = targetNodeDomainDetected === true ? RESUME_TIMEOUT_MS : ARRIVAL_TIMEOUT_MS;
  const lost = `the source pod has ended, and the target does not report within ${String(waitMs / 1000)} s that it has the guest`;
  return [
    ...completionDeadline(facts, state),
    ...deadline("arrival", sourceEndedTimestamp, { withinMs: waitMs, why: lost }),
    ...abortReportDeadline(facts, state),
  ].toSorted((a, b) => a.atMs - b.atMs);
}

function passedDeadline(facts: MigrationFacts, kind?: Deadline["kind"]): Deadline | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  return listDeadlines(facts).find(
    (each) => each.atMs <= nowMs && (kind === undefined || each.kind === kind),
  );
}

/** Returns the milliseconds until the next deadline. Undefined if there is none. */
export function nextDeadlineMs(facts: MigrationFacts): number | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  const coming = listDeadlines(facts).filter(({ atMs }) => atMs > nowMs);
  return coming.length === 0 ? undefined : Math.min(...coming.map(({ atMs }) => atMs - nowMs));
}

export type Decision =
  /** Wait until other migrations allow this one to begin, or until the guest runs. */
  | { readonly kind: "wait" }
  /** Create the target pod. */
  | { readonly kind: "begin" }
  /** Wait until the target pod is ready. */
  | { readonly kind: "schedule" }
  /** Write the migration state for both nodes, because the target pod is ready. */
  | { readonly kind: "open" }
  | { readonly kind: "goOn" }
  /** Request an abort from the source node. */
  | { readonly kind: "abort"; readonly why: string }
  | { readonly kind: "succeed" }
  | { readonly kind: "fail"; readonly why: string }
  /** Fail, and report the guest as lost: it runs in neither pod. */
  | { readonly kind: "lose"; readonly why: string }
  /** The VMI's migration state is complete, or the migration no longer exists. */
  | { readonly kind: "closed" };

/** Failure reason of a canceled migration. Source: KubeVirt pkg/virt-controller/watch/migration. */
const CANCELED_MESSAGE = "Migration failed due to being canceled";

const fail = (why: string): Decision => ({ kind: "fail", why });
const lose = (why: string): Decision => ({ kind: "lose", why });

function describePod({ metadata }: Pod): string {
  return `target pod ${metadata.name}`;
}

function targetProblem({ targetPod, targetLoss }: MigrationFacts): string | undefined {
  if (targetPod === undefined) return "the target pod was deleted";
  const limit = podFailure(targetPod);
  const why = limit === undefined ? "" : `: ${limit.reason}: ${limit.message}`;
  if (isPodOver(targetPod))
    return `${describePod(targetPod)} has ended before the guest came${why}`;
  if (targetPod.metadata.deletionTimestamp !== undefined) {
    return `${describePod(targetPod)} is being deleted`;
  }
  if (targetLoss === undefined) return undefined;
  return `node ${targetPod.spec.nodeName ?? ""}, to which the guest was to go, does not answer`;
}

function reasonToEnd({ guest, migration }: MigrationFacts): string | undefined {
  if (migration === undefined || migration.metadata.deletionTimestamp !== undefined) {
    return CANCELED_MESSAGE;
  }
  if (guest?.vmi.metadata.deletionTimestamp === undefined) return undefined;
  return `VMI ${guest.vmi.metadata.name} is being stopped`;
}

function isReady({ spec, status }: Pod): boolean {
  return spec.nodeName !== undefined && status?.phase === "Running";
}

function networkProblem({ targetAbsences }: MigrationFacts): string | undefined {
  const [first] = targetAbsences.values();
  return first?.message;
}

function decideWithPod(facts: MigrationFacts, pod: Pod): Decision {
  const problem = targetProblem(facts) ?? networkProblem(facts) ?? addressProblem(facts);
  if (problem !== undefined) return fail(problem);
  const passed = passedDeadline(facts);
  if (passed !== undefined) return fail(passed.why);
  return isReady(pod) && facts.guest?.pod !== undefined ? { kind: "open" } : { kind: "schedule" };
}

/** Whether the guest has one pod on a responsive node, and no pods of earlier migrations. */
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

/** Decides while the VMI's status has no state of this migration. */
function decideBeforeOpen(facts: MigrationFacts): Decision {
  const { guest, migration, targetPod, key } = facts;
  if (migration === undefined) return { kind: "closed" };
  if (guest === undefined) return fail(`the VMI "${key}" does not exist`);
  if (isVmiFinal(guest.vmi)) return fail("Cannot migrate VMI in finalized state.");
  const why = reasonToEnd(facts);
  if (why !== undefined) return fail(why);
  if (targetPod !== undefined) return decideWithPod(facts, targetPod);
  return hasMigrationBegun(migration) ? fail("the target pod was deleted") : decideBeforePod(facts);
}

/** Decides while the VMI's status has the migration state, but the guest has not started to migrate. */
function decideBeforeStart(facts: MigrationFacts): Decision {
  const why =
    reasonToEnd(facts) ??
    targetProblem(facts) ??
    addressProblem(facts) ??
    passedDeadline(facts)?.why;
  if (why !== undefined) return fail(why);
  return isPodOver(facts.guest?.pod) ? fail("the guest has ended") : { kind: "goOn" };
}

function decideWithoutSource(facts: MigrationFacts): Decision | undefined {
  if (!isPodOver(facts.guest?.pod)) return undefined;
  if (isPodOver(facts.targetPod)) return lose("both pods of the guest have ended");
  const passed = passedDeadline(facts, "arrival");
  return passed === undefined ? { kind: "goOn" } : lose(passed.why);
}

/** Decides after the source reported that the guest is on the target, where it may be paused. */
function decideAfterSource(facts: MigrationFacts, state: MigrationState): Decision {
  const { guest, targetPod } = facts;
  if (isPodOver(targetPod)) {
    const why = targetProblem(facts) ?? "the target pod has ended";
    return lose(`the guest had left its node, and is lost at its target: ${why}`);
  }
  const { deletionTimestamp, name = "" } = guest?.vmi.metadata ?? {};
  if (deletionTimestamp === undefined) return { kind: "goOn" };
  if (findPausedGuestMessage(state) !== undefined) return lose(`VMI ${name} is being stopped`);
  const missedReport = passedDeadline(facts, "abortReport");
  return missedReport === undefined ? { kind: "goOn" } : lose(missedReport.why);
}

/** Decides after the guest started to migrate, when it may be on either node. */
function decideWhileMigrating(facts: MigrationFacts, state: MigrationState): Decision {
  const withoutSource = decideWithoutSource(facts);
  if (withoutSource !== undefined) return withoutSource;
  const why = reasonToEnd(facts) ?? targetProblem(facts) ?? passedDeadline(facts)?.why;
  if (why === undefined) return { kind: "goOn" };
  if (state.abortRequested !== true) return { kind: "abort", why };
  if (state.sourceNodeDomainLeft === true) return decideAfterSource(facts, state);
  // Without the target pod the migration cannot succeed.
  const missedReport = passedDeadline(facts, "abortReport");
  return missedReport === undefined ? { kind: "goOn" } : fail(missedReport.why);
}

export function decide(facts: MigrationFacts): Decision {
  const state = findMigrationState(facts);
  if (state === undefined) return decideBeforeOpen(facts);
  if (state.completed === true) return { kind: "closed" };
  // The target's report that the guest runs there overrides all other reports.
  if (state.targetNodeDomainReadyTimestamp !== undefined) return { kind: "succeed" };
  if (state.failed === true)
    return fail(state.failureReason ?? "source node reported migration failed");
  if (state.startTimestamp === undefined) return decideBeforeStart(facts);
  return decideWhileMigrating(facts, state);
}
