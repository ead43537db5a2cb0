// SPDX-License-Identifier: Apache-2.0
// How a plan for one iface is carried out: one write, tried again when somebody else was faster. It is planned on what is
// known already, and on what the server says where that is not enough.
import type { NetworkConfig } from "@patchbay/api";
import { ownerVmOf, targetProblem, type NicPlan, type NicTarget } from "@patchbay/core";
import type { Reader } from "@patchbay/kube";
import {
  type Call,
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import { insist } from "./retry.ts";
import { aboutTarget, findOwner, observeTarget, typeOf } from "./targets.ts";

/** What is asked: on what, and what it means. */
export interface NicChange {
  /** The kind whose subresource was called. */
  readonly asked: NicTarget["kind"];
  readonly plan: (target: NicTarget) => NicPlan | Promise<NicPlan>;
  /** The log line of a change that was made. */
  readonly done: (target: NicTarget, call: Call) => void;
}

/** A change and who asks for it. */
interface Asked {
  readonly change: NicChange;
  readonly call: Call;
}

type Planned =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "write"; readonly target: NicTarget; readonly plan: PatchPlan };
type PatchPlan = Extract<NicPlan, { kind: "patch" }>;

/** The VM is the one source of truth: a request on its VMI is written to it. */
async function toWritable(reader: Reader, target: NicTarget): Promise<NicTarget> {
  if (target.kind === "vm") return target;
  const vm = await findOwner(reader, target.vmi);
  return vm === undefined ? target : { kind: "vm", vm, vmi: target.vmi };
}

/** Where changes of VMs wait for the next start, none has a guest that the change would reach. */
function asRolledOut(target: NicTarget, { isStaged }: NetworkConfig): NicTarget {
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
  const made = await deps.store.patch(typeOf(target.kind), key, patch, { dryRun: call.dryRun });
  if (!call.dryRun) deps.ownWrites.note(made);
}

async function planOn(
  reader: Reader,
  { change, call }: Asked,
  config: NetworkConfig,
): Promise<Planned> {
  const about = aboutTarget(change.asked, call);
  const asked = await observeTarget(reader, change.asked, call);
  if (asked === undefined) return { kind: "answer", answer: toNotFoundAnswer(about) };
  const problem = targetProblem(asked);
  if (problem !== undefined) return { kind: "answer", answer: toRefusalAnswer(problem, about) };
  const target = asRolledOut(await toWritable(reader, asked), config);
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

async function carryOut(deps: Deps, { change, call }: Asked, planned: Planned): Promise<Answer> {
  if (planned.kind === "answer") return planned.answer;
  await write(deps, planned, call);
  if (!call.dryRun) change.done(planned.target, call);
  return toAcceptedAnswer(planned.plan.message);
}

/**
 * Whether a plan may rest on what may be old. The patch tests the lists that it changes, so that one that reaches a running
 * guest may; an answer that changes nothing, or speaks of a guest that does not run, may not, nor that a VMI's VM is gone.
 */
function holds(planned: Planned): boolean {
  if (planned.kind !== "write" || planned.plan.effect !== "live") return false;
  const { target } = planned;
  return target.kind === "vm" || ownerVmOf(target.vmi) === undefined;
}

async function tryOnWhatIsKnown(deps: Deps, asked: Asked): Promise<Answer | "again"> {
  const planned = await planOn(deps.known, asked, deps.networkConfig());
  return holds(planned) ? carryOut(deps, asked, planned) : "again";
}

async function tryOnce(deps: Deps, asked: Asked): Promise<Answer> {
  return carryOut(deps, asked, await planOn(deps.store, asked, deps.networkConfig()));
}

/** Reads, plans, writes with tests, and reads again when the tests fail. Throws what the store throws. */
export function changeNics(deps: Deps, change: NicChange, call: Call): Promise<Answer> {
  const asked = { change, call };
  const attempt = (count: number): Promise<Answer | "again"> =>
    count === 0 ? tryOnWhatIsKnown(deps, asked) : tryOnce(deps, asked);
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    insist(attempt, deps, aboutTarget(change.asked, call)),
  );
}
