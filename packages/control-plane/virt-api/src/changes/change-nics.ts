// SPDX-License-Identifier: Apache-2.0
// Carries out a plan for one interface with a single write. Plans on cached objects first, and on fresh objects if that is not enough.
import type { NetworkConfig } from "@patchbay/api";
import { findOwnerVm } from "@patchbay/core/vm";
import { targetProblem, type NicPlan, type NicTarget } from "@patchbay/core/requests";
import type { Reader } from "@patchbay/kube";
import {
  type Call,
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import { retryOnConflict } from "./retry.ts";
import { aboutTarget, findOwner, observeTarget, resourceTypeOf } from "./targets.ts";

export interface NicChange {
  readonly kind: NicTarget["kind"];
  readonly plan: (target: NicTarget) => NicPlan | Promise<NicPlan>;
  readonly logChange: (target: NicTarget, call: Call) => void;
}

interface NicRequest {
  readonly change: NicChange;
  readonly call: Call;
}

type Planned =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "write"; readonly target: NicTarget; readonly plan: PatchPlan };
type PatchPlan = Extract<NicPlan, { kind: "patch" }>;

/** Writes a request on a VMI to its VM, which is the source of truth. */
async function findWritable(reader: Reader, target: NicTarget): Promise<NicTarget> {
  if (target.kind === "vm") return target;
  const vm = await findOwner(reader, target.vmi);
  return vm === undefined ? target : { kind: "vm", vm, vmi: target.vmi };
}

/** With rollout strategy Stage, changes wait for the next start and do not affect the guest. */
function applyRollout(target: NicTarget, { isStaged }: NetworkConfig): NicTarget {
  return isStaged && target.kind === "vm" ? { kind: "vm", vm: target.vm } : target;
}

async function write(
  deps: Deps,
  written: { readonly target: NicTarget; readonly plan: PatchPlan },
  call: Call,
): Promise<void> {
  const { target, plan } = written;
  const object = target.kind === "vm" ? target.vm : target.vmi;
  const key = { namespace: call.namespace, name: object.metadata.name };
  const patch = { type: "json", operations: plan.operations } as const;
  const updated = await deps.store.patch(resourceTypeOf(target.kind), key, patch, {
    dryRun: call.dryRun,
  });
  if (!call.dryRun) deps.mutationCache.note(updated);
}

async function observeAndPlan(
  reader: Reader,
  { change, call }: NicRequest,
  config: NetworkConfig,
): Promise<Planned> {
  const about = aboutTarget(change.kind, call);
  const requested = await observeTarget(reader, change.kind, call);
  if (requested === undefined) return { kind: "answer", answer: toNotFoundAnswer(about) };
  const problem = targetProblem(requested);
  if (problem !== undefined) return { kind: "answer", answer: toRefusalAnswer(problem, about) };
  const target = applyRollout(await findWritable(reader, requested), config);
  const plan = await change.plan(target);
  switch (plan.kind) {
    case "refused":
      return { kind: "answer", answer: toRefusalAnswer(plan.refusal, about) };
    case "unchanged":
      return { kind: "answer", answer: toAcceptedAnswer(plan.message) };
    case "patch":
      return { kind: "write", target, plan };
  }
}

async function carryOut(
  deps: Deps,
  { change, call }: NicRequest,
  planned: Planned,
): Promise<Answer> {
  if (planned.kind === "answer") return planned.answer;
  await write(deps, planned, call);
  if (!call.dryRun) change.logChange(planned.target, call);
  return toAcceptedAnswer(planned.plan.message);
}

/** True for patches that affect a running guest, because they test the lists that they change. Other responses need fresh objects. */
function isSafeOnCache(planned: Planned): boolean {
  if (planned.kind !== "write" || planned.plan.effect !== "live") return false;
  const { target } = planned;
  return target.kind === "vm" || findOwnerVm(target.vmi) === undefined;
}

async function tryOnCache(deps: Deps, request: NicRequest): Promise<Answer | "again"> {
  const planned = await observeAndPlan(deps.cachedReader, request, deps.networkConfig());
  return isSafeOnCache(planned) ? carryOut(deps, request, planned) : "again";
}

async function tryOnce(deps: Deps, request: NicRequest): Promise<Answer> {
  return carryOut(deps, request, await observeAndPlan(deps.store, request, deps.networkConfig()));
}

/** Reads, plans and writes; starts again if the tests of the patch fail. Rejects with the errors of the store. */
export function changeNics(deps: Deps, change: NicChange, call: Call): Promise<Answer> {
  const request = { change, call };
  const attempt = (count: number): Promise<Answer | "again"> =>
    count === 0 ? tryOnCache(deps, request) : tryOnce(deps, request);
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    retryOnConflict(attempt, deps, aboutTarget(change.kind, call)),
  );
}
