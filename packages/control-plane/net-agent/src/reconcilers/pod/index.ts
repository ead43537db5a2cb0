// SPDX-License-Identifier: Apache-2.0
// One pass over one pod: compares its annotation with the journal, and attaches and detaches.
import { messageOf, findRetryRule } from "@patchbay/base";
import { planAttachmentActions } from "@patchbay/core/nics";
import { after, done, type EventRecorder, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { act, blockAll } from "./act.ts";
import { listUids, observe } from "./observe.ts";
import { report } from "./report.ts";

/** One pass over the pod with that key, and over deleted pods of the same name. Safe to repeat. */
export async function reconcilePod(key: string, deps: Deps): Promise<Next> {
  const failures: unknown[] = [];
  const delaysMs: number[] = [];
  for (const uid of listUids(key, deps)) {
    try {
      const againMs = await reconcileOne(key, uid, deps);
      if (againMs !== undefined) delaysMs.push(againMs);
    } catch (error) {
      // A failure of a deleted pod must not block the current one.
      failures.push(error);
    }
  }
  const worst = failures.find((error) => findRetryRule(error) === "backoff") ?? failures[0];
  if (worst !== undefined) throw toError(worst);
  return delaysMs.length === 0 ? done() : after(Math.min(...delaysMs));
}

/** Libraries may throw any value. */
function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}

async function recordEventsLast<T>(
  { events, ...deps }: Deps,
  work: (deps: Deps) => Promise<T>,
): Promise<T> {
  const deferred: (() => void)[] = [];
  const record: EventRecorder["record"] = (object, note) => {
    deferred.push(() => {
      events.record(object, note);
    });
  };
  try {
    return await work({ ...deps, events: { record, flush: () => events.flush() } });
  } finally {
    for (const recordNow of deferred) recordNow();
  }
}

/** Returns the milliseconds until the next pass; undefined to wait for a change. */
function reconcileOne(key: string, uid: string, all: Deps): Promise<number | undefined> {
  return all.podMutex.runExclusive(uid, () =>
    recordEventsLast(all, (deps) => runPass(key, uid, deps)),
  );
}

/** Time for the runtime to detach a pod that is gone from the API server, milliseconds. */
const RUNTIME_DETACH_TIMEOUT_MS = 60_000;

async function runPass(key: string, uid: string, deps: Deps): Promise<number | undefined> {
  const facts = await observe(key, uid, deps);
  if (facts === undefined) return undefined;
  const plan = planAttachmentActions(facts.attachments); // pure
  if (plan.length > 0) {
    deps.log.debug("plan for pod", { pod: key, plan: plan.map((action) => action.kind) });
  }
  if (facts.runtimeUnavailable !== undefined) {
    await report(facts, blockAll(plan, facts.runtimeUnavailable.report), deps);
    throw facts.runtimeUnavailable.error; // the queue retries
  }
  const actResult = await act(plan, facts, deps);
  await report(facts, actResult, deps);
  if (facts.isLeftToRuntime !== true) return actResult.retryInMs;
  return Math.min(RUNTIME_DETACH_TIMEOUT_MS, actResult.retryInMs ?? RUNTIME_DETACH_TIMEOUT_MS);
}
