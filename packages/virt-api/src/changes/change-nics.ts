// SPDX-License-Identifier: Apache-2.0
// How a plan for one iface is carried out: one write, tried again when somebody else was faster.
import { isAppError, targetProblem, type NicPlan, type NicTarget } from "@patchbay/core";
import type { Call } from "../routes/call.ts";
import type { Deps } from "../deps.ts";
import {
  toAcceptedAnswer,
  toLostAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import { insist } from "./races.ts";
import { aboutTarget, findOwner, observeTarget, typeOf } from "./targets.ts";

/** What is asked: on what, and what it means. */
export interface NicChange {
  /** The kind whose subresource was called. */
  readonly asked: NicTarget["kind"];
  readonly plan: (target: NicTarget) => NicPlan | Promise<NicPlan>;
  /** The log line of a change that was made. */
  readonly done: (target: NicTarget, call: Call) => void;
}

/** The VM is the one source of truth: a request on its VMI is written to it. */
async function toWritable(deps: Deps, target: NicTarget): Promise<NicTarget> {
  if (target.kind === "vm") return target;
  const vm = await findOwner(deps.store, target.vmi);
  return vm === undefined ? target : { kind: "vm", vm, vmi: target.vmi };
}

async function write(
  deps: Deps,
  written: { readonly target: NicTarget; readonly plan: Extract<NicPlan, { kind: "patch" }> },
  call: Call,
): Promise<boolean> {
  const { target, plan } = written;
  const object = target.kind === "vm" ? target.vm : target.vmi;
  const key = { namespace: call.namespace, name: object.metadata.name };
  const patch = { type: "json", operations: plan.operations } as const;
  try {
    await deps.store.patch(typeOf(target.kind), key, patch, { dryRun: call.dryRun });
    return true;
  } catch (error) {
    if (isAppError(error, "KUBE_CONFLICT")) return false;
    throw error;
  }
}

async function tryOnce(deps: Deps, change: NicChange, call: Call): Promise<Answer | "again"> {
  const about = aboutTarget(change.asked, call);
  const asked = await observeTarget(deps.store, change.asked, call);
  if (asked === undefined) return toNotFoundAnswer(about);
  const problem = targetProblem(asked);
  if (problem !== undefined) return toRefusalAnswer(problem, about);
  const target = await toWritable(deps, asked);
  const plan = await change.plan(target);
  if (plan.kind === "refused") return toRefusalAnswer(plan.refusal, about);
  if (plan.kind === "patch") {
    if (!(await write(deps, { target, plan }, call))) return "again";
    if (!call.dryRun) change.done(target, call);
  }
  return toAcceptedAnswer(plan.message);
}

/** Reads, plans, writes with tests, and reads again when the tests fail. Throws what the store throws. */
export function changeNics(deps: Deps, change: NicChange, call: Call): Promise<Answer> {
  return deps.turns.take(`${call.namespace}/${call.name}`, async () => {
    const answer = await insist(() => tryOnce(deps, change, call));
    return answer ?? toLostAnswer(aboutTarget(change.asked, call));
  });
}
