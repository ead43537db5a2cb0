// SPDX-License-Identifier: Apache-2.0
// One pass over one pod of this node. The key is its uid: a pod of the same name may be on its way out still.
import { isAppError, messageOf } from "@patchbay/core";
import { after, done, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { planPod } from "../../pod/plan.ts";
import { act } from "./act.ts";
import { observe } from "./observe.ts";
import { report } from "./report.ts";

/** One pass: what is there, what is missing, doing it, saying it. Safe to repeat, and to cut anywhere. */
export async function reconcilePod(uid: string, deps: Deps): Promise<Next> {
  const facts = await observe(uid, deps);
  const plan = planPod(facts, deps.clock.now()); // pure
  const failure = await act(plan, facts, deps);
  const isOver = plan.some(({ kind }) => kind === "deleteObject") && failure === undefined;
  if (!isOver)
    await reportUnlessGone(plan.length === 0 ? facts : await observe(uid, deps), failure, deps);
  if (failure !== undefined) throw toError(failure);
  const wait = plan.find((action) => action.kind === "wait");
  return wait === undefined ? done() : after(wait.ms);
}

async function reportUnlessGone(
  facts: Awaited<ReturnType<typeof observe>>,
  failure: unknown,
  deps: Deps,
): Promise<void> {
  try {
    await report(facts, failure, deps);
  } catch (error) {
    // Removed meanwhile: the watch is about to say so.
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

/** What libraries throw may be anything. */
function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}
