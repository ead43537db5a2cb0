// SPDX-License-Identifier: Apache-2.0
// Decides the next step of a migration. Before the guest starts to migrate, the migration can fail at once. Afterwards only the
// source's report, or the end of its pod, shows that the guest has not moved.
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

// Limits for each part of a migration. Source: KubeVirt pkg/virt-controller/watch/migration.
const SCHEDULING_TIMEOUT_MS = 300_000;
/** Until the target pod and its node are ready for the guest. */
const READY_TIMEOUT_MS = 900_000;
/** Until the target reports the guest, after the source pod has ended. */
const ARRIVAL_TIMEOUT_MS = 60_000;
/** The same if the target has a domain: its virt-handler may be restarting. */
const RESUME_TIMEOUT_MS = 300_000;
/**
 * Until a node reports after the abort was requested: the source if the target pod has ended, or the target if the guest
 * has left the source.
 */
const ABORT_REPORT_TIMEOUT_MS = 300_000;

interface Deadline {
  readonly kind: "pod" | "completion" | "arrival" | "word";
  /** Milliseconds since 1970. */
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
  const found = `no node has taken target pod ${name} within ${printMinutes(SCHEDULING_TIMEOUT_MS)}: ${scheduled?.message ?? ""}`;
  const ready = `target pod ${name} was not ready for the guest within ${printMinutes(READY_TIMEOUT_MS)}${describeFailedIfaces(facts)}`;
  return [
    ...(isStuck ? deadline("pod", since, { withinMs: SCHEDULING_TIMEOUT_MS, why: found }) : []),
    ...deadline("pod", since, { withinMs: READY_TIMEOUT_MS, why: ready }),
  ];
}

/** If disruption is allowed, the guest is paused at the deadline and has the same time again. */
function completionDeadline(facts: MigrationFacts, state: MigrationState): readonly Deadline[] {
  // The configuration at the start of the migration.
  const settings = { ...facts.settings.configuration, ...state.migrationConfiguration };
  const onceMs = completionTimeoutMs(settings, facts.guest?.vmi);
  const isDisrupted = settings.allowWorkloadDisruption;
  const withinMs = isDisrupted ? 2 * onceMs : onceMs;
  const still = isDisrupted ? ", although it may stand still for half of that" : "";
  const why = `the guest has not moved within ${String(withinMs / 1000)} s (completionTimeoutPerGiB)${still}`;
  return deadline("completion", state.startTimestamp, { withinMs, why });
}

/** Also applies after the migration object was deleted. */
function abortReportDeadline(
  { targetPod }: MigrationFacts,
  state: MigrationState,
): readonly Deadline[] {
  const { abortRequestedTimestamp: since, sourceNodeDomainLeft } = state;
  const within = `within ${printMinutes(ABORT_REPORT_TIMEOUT_MS)}`;
  if (sourceNodeDomainLeft === true) {
    const why = `the guest is no longer on the source node, and the target does not report ${within} that it runs there`;
    return deadline("word", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
  }
  if (!isPodOver(targetPod)) return [];
  const why = `the target pod has ended, and the source does not report ${within} where the guest is`;
  return deadline("word", since, { withinMs: ABORT_REPORT_TIMEOUT_MS, why });
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

/** Milliseconds until the next deadline. Undefined if none is active. */
export function nextDeadlineMs(facts: MigrationFacts): number | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  const coming = listDeadlines(facts).filter(({ atMs }) => atMs > nowMs);
  return coming.length === 0 ? undefined : Math.min(...coming.map(({ atMs }) => atMs - nowMs));
}

export type Decision =
  /** Another migration is first, or the guest does not run yet. */
  | { readonly kind: "wait" }
  /** Create the target pod. */
  | { readonly kind: "begin" }
  /** The target pod is not ready yet. */
  | { readonly kind: "schedule" }
  /** The target pod is ready: write the migration state for both nodes. */
  | { readonly kind: "open" }
  | { readonly kind: "goOn" }
  /** Request that the source aborts. */
  | { readonly kind: "abort"; readonly why: string }
  | { readonly kind: "succeed" }
  | { readonly kind: "fail"; readonly why: string }
  /** Fail, and report the guest as lost: it runs in neither pod. */
  | { readonly kind: "lose"; readonly why: string }
  /** The VMI's migration state is complete, or the migration no longer exists. */
  | { readonly kind: "closed" };

/** Source: KubeVirt pkg/virt-controller/watch/migration. */
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
  const [first] = [...targetAbsences.values()];
  return first?.message;
}

function decideWithPod(facts: MigrationFacts, pod: Pod): Decision {
  const problem = targetProblem(facts) ?? networkProblem(facts) ?? addressProblem(facts);
  if (problem !== undefined) return fail(problem);
  const late = passedDeadline(facts);
  if (late !== undefined) return fail(late.why);
  return isReady(pod) && facts.guest?.pod !== undefined ? { kind: "open" } : { kind: "schedule" };
}

/** Whether the guest has exactly one pod. Pods of an earlier migration must be deleted first. */
function hasOnePod({ guest, leftoverPods }: MigrationFacts): boolean {
  return leftoverPods.length === 0 && guest?.pod !== undefined && guest.nodeLoss === undefined;
}

function decideBeforePod(facts: MigrationFacts): Decision {
  const { guest, unfit, mayBegin } = facts;
  if (guest?.vmi.status?.phase !== "Running") return { kind: "wait" };
  const { namespace = "", name } = guest.vmi.metadata;
  const problem = migrationProblem(guest.vmi, { namespace, name }) ?? unfit;
  if (problem !== undefined) return fail(problem);
  return mayBegin && hasOnePod(facts) ? { kind: "begin" } : { kind: "wait" };
}

/** Decides before the VMI's status has the migration state. */
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

/** Decides after both nodes know of the migration, before the guest starts to migrate. */
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
  const late = passedDeadline(facts, "arrival");
  return late === undefined ? { kind: "goOn" } : lose(late.why);
}

/** The source has reported that the guest is at the target, where it may be paused. */
function decideAfterSource(facts: MigrationFacts, state: MigrationState): Decision {
  const { guest, targetPod } = facts;
  if (isPodOver(targetPod)) {
    const why = targetProblem(facts) ?? "the target pod has ended";
    return lose(`the guest had left its node, and is lost at its target: ${why}`);
  }
  const { deletionTimestamp, name = "" } = guest?.vmi.metadata ?? {};
  if (deletionTimestamp === undefined) return { kind: "goOn" };
  if (findPausedGuestMessage(state) !== undefined) return lose(`VMI ${name} is being stopped`);
  const silent = passedDeadline(facts, "word");
  return silent === undefined ? { kind: "goOn" } : lose(silent.why);
}

/** The guest may be on either node. */
function decideWhileMigrating(facts: MigrationFacts, state: MigrationState): Decision {
  const alone = decideWithoutSource(facts);
  if (alone !== undefined) return alone;
  const why = reasonToEnd(facts) ?? targetProblem(facts) ?? passedDeadline(facts)?.why;
  if (why === undefined) return { kind: "goOn" };
  if (state.abortRequested !== true) return { kind: "abort", why };
  if (state.sourceNodeDomainLeft === true) return decideAfterSource(facts, state);
  // Without the target pod the migration cannot succeed.
  const silent = passedDeadline(facts, "word");
  return silent === undefined ? { kind: "goOn" } : fail(silent.why);
}

export function decide(facts: MigrationFacts): Decision {
  const state = findMigrationState(facts);
  if (state === undefined) return decideBeforeOpen(facts);
  if (state.completed === true) return { kind: "closed" };
  // The target reports that the guest runs there. That overrides all other reports.
  if (state.targetNodeDomainReadyTimestamp !== undefined) return { kind: "succeed" };
  if (state.failed === true)
    return fail(state.failureReason ?? "source node reported migration failed");
  if (state.startTimestamp === undefined) return decideBeforeStart(facts);
  return decideWhileMigrating(facts, state);
}
