// SPDX-License-Identifier: Apache-2.0
// One pass over one pod of this node. The key is its uid: a pod of the same name may be on its way out still.
import { isAppError } from "@patchbay/core";
import { after, done, type Next } from "@patchbay/kube";
import { act } from "./act.ts";
import type { PodDeps, ProbedContainer } from "./deps.ts";
import { readySandbox, type PodFacts } from "./facts.ts";
import { observe } from "./observe.ts";
import { planPod } from "./plan.ts";
import { report } from "./report.ts";

/** Those that run, while their pod is to stay. */
function probedOf(facts: PodFacts): readonly ProbedContainer[] {
  const { pod } = facts;
  const podIps = readySandbox(facts)?.ips ?? [];
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return [];
  return facts.containers
    .filter(({ state }) => state === "RUNNING")
    .map((container) => ({ pod, container, podIps }));
}

async function reportUnlessGone(facts: PodFacts, deps: PodDeps): Promise<void> {
  const { pod } = facts;
  if (pod === undefined) return;
  deps.probes.keep(facts.uid, probedOf(facts));
  const health = deps.probes.healthOf(facts.uid);
  try {
    await report({ ...facts, pod, health }, deps);
  } catch (error) {
    // Removed meanwhile: the watch is about to say so.
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

/** One pass: what is there, what is missing, doing it, saying it. Safe to repeat, and to cut anywhere. */
export async function reconcilePod(uid: string, deps: PodDeps): Promise<Next> {
  const facts = await observe(uid, deps);
  const plan = planPod(facts, deps.clock.now()); // pure
  const isOver = plan.some(({ kind }) => kind === "deleteObject");
  if (isOver) await reportUnlessGone(facts, deps); // how it ended, before nobody can be told any more
  const { hasActed, waitMs } = await act(plan, facts, deps);
  if (!isOver) await reportUnlessGone(hasActed ? await observe(uid, deps) : facts, deps);
  return waitMs === undefined ? done() : after(waitMs);
}
