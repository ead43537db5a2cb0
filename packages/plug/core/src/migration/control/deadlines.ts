// SPDX-License-Identifier: Apache-2.0
// How long may each part of a migration take? Source: KubeVirt pkg/virt-controller/watch/migration, whose times these are.
import type { MigrationState } from "@patchbay/api";
import { toMs } from "../../time.ts";
import { completionMsOf } from "../limits.ts";
import { isPodOver, stateIn, type MigrationFacts } from "./facts.ts";

/** For a node that takes the pod, milliseconds. */
const UNSCHEDULABLE_MS = 300_000;
/** For a pod that is ready, and a node that waits for the guest, milliseconds. */
const PENDING_MS = 900_000;
/** For a word of the target's, once the source's pod has ended, milliseconds. */
const ARRIVAL_MS = 60_000;
/** The same where a domain was seen there: its node's virt-handler may be away, milliseconds. */
const RESUME_MS = 300_000;
/**
 * Once the migration is to end: for a word of the source's where the target's pod has ended, and for one of the target's where the guest
 * has left the source, milliseconds.
 */
const WORD_MS = 300_000;

/** Until when something is to have happened. */
export interface Deadline {
  readonly kind: "pod" | "completion" | "arrival" | "word";
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly why: string;
}

function deadline(
  kind: Deadline["kind"],
  since: string | undefined,
  told: { readonly withinMs: number; readonly why: string },
): readonly Deadline[] {
  const sinceMs = toMs(since);
  return sinceMs === undefined ? [] : [{ kind, atMs: sinceMs + told.withinMs, why: told.why }];
}

function inMinutes(ms: number): string {
  return `${String(ms / 60_000)} minutes`;
}

/** Networks that the pod could not be given, if that is why it waits. */
function sayFailing(facts: MigrationFacts): string {
  const { targetAttachments = [] } = stateIn(facts) ?? {};
  const failing = targetAttachments.filter(({ state }) => state === "Failed");
  return failing.map(({ name, message = "" }) => `; interface ${name}: ${message}`).join("");
}

function podDeadlines(facts: MigrationFacts): readonly Deadline[] {
  const { targetPod } = facts;
  if (targetPod === undefined) return [];
  const { creationTimestamp: since, name } = targetPod.metadata;
  const scheduled = targetPod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const isStuck = scheduled?.status === "False" && scheduled.reason === "Unschedulable";
  const found = `no node has taken target pod ${name} within ${inMinutes(UNSCHEDULABLE_MS)}: ${scheduled?.message ?? ""}`;
  const ready = `target pod ${name} was not ready for the guest within ${inMinutes(PENDING_MS)}${sayFailing(facts)}`;
  return [
    ...(isStuck ? deadline("pod", since, { withinMs: UNSCHEDULABLE_MS, why: found }) : []),
    ...deadline("pod", since, { withinMs: PENDING_MS, why: ready }),
  ];
}

/** A guest that may be disrupted stands still once its time is over, and has as much again to arrive. */
function completionDeadline(facts: MigrationFacts, state: MigrationState): readonly Deadline[] {
  // As both nodes were told when it was opened.
  const settings = { ...facts.settings.configuration, ...state.migrationConfiguration };
  const onceMs = completionMsOf(settings, facts.guest?.vmi);
  const isDisrupted = settings.allowWorkloadDisruption;
  const withinMs = isDisrupted ? 2 * onceMs : onceMs;
  const still = isDisrupted ? ", although it may stand still for half of that" : "";
  const why = `the guest has not moved within ${String(withinMs / 1000)} s (completionTimeoutPerGiB)${still}`;
  return deadline("completion", state.startTimestamp, { withinMs, why });
}

/** Of a migration that is to end, whether its object is still there or not. */
function wordDeadline({ targetPod }: MigrationFacts, state: MigrationState): readonly Deadline[] {
  const { abortRequestedTimestamp: since, sourceNodeDomainLeft } = state;
  const within = `within ${inMinutes(WORD_MS)}`;
  if (sourceNodeDomainLeft === true) {
    const why = `the guest has left its node, and its target does not say ${within} that it runs there`;
    return deadline("word", since, { withinMs: WORD_MS, why });
  }
  if (!isPodOver(targetPod)) return [];
  const why = `the target pod has ended, and the source does not say ${within} what became of the guest`;
  return deadline("word", since, { withinMs: WORD_MS, why });
}

/** All that are running, the earliest first. */
export function deadlinesOf(facts: MigrationFacts): readonly Deadline[] {
  const state = stateIn(facts);
  if (state?.startTimestamp === undefined) return podDeadlines(facts);
  const { sourceEndedTimestamp, targetNodeDomainDetected } = state;
  const waitMs = targetNodeDomainDetected === true ? RESUME_MS : ARRIVAL_MS;
  const lost = `the source's pod has ended, and the target does not say within ${String(waitMs / 1000)} s that it has the guest`;
  return [
    ...completionDeadline(facts, state),
    ...deadline("arrival", sourceEndedTimestamp, { withinMs: waitMs, why: lost }),
    ...wordDeadline(facts, state),
  ].toSorted((a, b) => a.atMs - b.atMs);
}

/** The first that has passed, of that kind. */
export function passedDeadline(
  facts: MigrationFacts,
  kind?: Deadline["kind"],
): Deadline | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  return deadlinesOf(facts).find(
    (each) => each.atMs <= nowMs && (kind === undefined || each.kind === kind),
  );
}

/** After how many milliseconds the next one passes; undefined: none is running. */
export function nextDeadlineMs(facts: MigrationFacts): number | undefined {
  const nowMs = toMs(facts.now) ?? 0;
  const coming = deadlinesOf(facts).filter(({ atMs }) => atMs > nowMs);
  return coming.length === 0 ? undefined : Math.min(...coming.map(({ atMs }) => atMs - nowMs));
}
