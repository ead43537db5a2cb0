// SPDX-License-Identifier: Apache-2.0
// How long may each part of a migration take? Source: KubeVirt pkg/virt-controller/watch/migration, whose times these are.
import type { MigrationState } from "@patchbay/api";
import { memoryMiBOf } from "../../spec/memory.ts";
import { toMs } from "../../time.ts";
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
const MIB_PER_GIB = 1024;

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

/** Of what the guest has, each GiB may take so long; a guest of less than one takes as long as one. */
function completionMs(facts: MigrationFacts): number {
  const { guest, settings } = facts;
  // As both nodes were told when it was opened.
  const { completionTimeoutPerGiB } = {
    ...settings.configuration,
    ...stateIn(facts)?.migrationConfiguration,
  };
  const mib = guest === undefined ? 0 : memoryMiBOf(guest.vmi.spec.domain);
  const gib = Math.max(1, Math.ceil(mib / MIB_PER_GIB));
  return gib * completionTimeoutPerGiB * 1000;
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
  const { startTimestamp, sourceEndedTimestamp, targetNodeDomainDetected } = state ?? {};
  if (startTimestamp === undefined) return podDeadlines(facts);
  const withinMs = completionMs(facts);
  const seconds = String(withinMs / 1000);
  const slow = `the guest has not moved within ${seconds} s (completionTimeoutPerGiB)`;
  const waitMs = targetNodeDomainDetected === true ? RESUME_MS : ARRIVAL_MS;
  const lost = `the source's pod has ended, and the target does not say within ${String(waitMs / 1000)} s that it has the guest`;
  return [
    ...deadline("completion", startTimestamp, { withinMs, why: slow }),
    ...deadline("arrival", sourceEndedTimestamp, { withinMs: waitMs, why: lost }),
    ...wordDeadline(facts, state ?? {}),
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
