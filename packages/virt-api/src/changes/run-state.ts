// SPDX-License-Identifier: Apache-2.0
// What start, stop and restart write. Source: KubeVirt pkg/virt-api/rest/lifecycle.go.
import {
  runStrategyOf,
  VIRTUAL_MACHINES,
  isVmiFinal,
  type Cause,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
  type JsonPatchOperation,
} from "@patchbay/api";
import { isAppError, sayProblems, vmiOf, vmStartProblems } from "@patchbay/core";
import type { Patch } from "@patchbay/ports";
import type { Call } from "../routes/call.ts";
import type { Deps } from "../deps.ts";
import { insist } from "./races.ts";
import {
  toAcceptedAnswer,
  toFailureAnswer,
  toLostAnswer,
  toNotFoundAnswer,
  type Answer,
} from "../http/answers.ts";
import { observeVm } from "./targets.ts";

/** A VM and its VMI. */
export interface RunFacts {
  readonly vm: VirtualMachine;
  readonly vmi?: VirtualMachineInstance;
}

/** What a request about running does, or why not. */
export type RunPlan =
  | {
      readonly kind: "act";
      readonly act: () => Promise<unknown>;
      /** Constant, lower case. */
      readonly message: string;
    }
  | { readonly kind: "conflict"; readonly message: string }
  | { readonly kind: "refused"; readonly message: string; readonly causes: readonly Cause[] };

/** The plan, or the refusal of a start that could not come true: a restart would only end the guest. */
export function ifStartable({ vm }: RunFacts, plan: RunPlan): RunPlan {
  const problems = vmStartProblems(vm, vmiOf(vm), undefined);
  if (plan.kind !== "act" || problems.length === 0) return plan;
  return {
    kind: "refused",
    message: `the VM cannot be started: ${sayProblems(problems)}`,
    causes: problems.map((problem) => ({ reason: "FieldValueNotSupported", ...problem })),
  };
}

/** Whether a guest runs or is on its way. */
export function hasGuest({ vmi }: RunFacts): boolean {
  return vmi !== undefined && !isVmiFinal(vmi);
}

/** Makes the conflict that KubeVirt answers. */
export function noManualRequests({ vm }: RunFacts, request: "start" | "stop" | "restart"): RunPlan {
  const strategy = runStrategyOf(vm);
  return { kind: "conflict", message: `${strategy} does not support manual ${request} requests` };
}

/** Sets whether a VM runs, in the form in which it is said already. */
export function patchRunning(vm: VirtualMachine, running: boolean): Patch {
  const strategy = running ? "Always" : "Halted";
  const { spec } = vm;
  const operations: readonly JsonPatchOperation[] =
    spec.running !== undefined
      ? [
          { op: "test", path: "/spec/running", value: spec.running },
          { op: "replace", path: "/spec/running", value: running },
        ]
      : [
          spec.runStrategy === undefined
            ? { op: "test", path: "/metadata/resourceVersion", value: vm.metadata.resourceVersion }
            : { op: "test", path: "/spec/runStrategy", value: spec.runStrategy },
          { op: "add", path: "/spec/runStrategy", value: strategy },
        ];
  return { type: "json", operations };
}

/** Asks the controller, where the specification leaves it to requests. Source: KubeVirt VirtualMachineStateChangeRequest. */
export function requestStateChange(
  deps: Deps,
  call: Call,
  changes: readonly StateChangeRequest[],
): Promise<unknown> {
  const patch: Patch = { type: "merge", fields: { status: { stateChangeRequests: changes } } };
  return deps.store.patch(VIRTUAL_MACHINES, call, patch, {
    subresource: "status",
    dryRun: call.dryRun,
  });
}

async function tryOnce(
  deps: Deps,
  call: Call,
  plan: (facts: RunFacts) => RunPlan,
): Promise<Answer | "again"> {
  const about = { type: VIRTUAL_MACHINES, name: call.name };
  const facts = await observeVm(deps.store, call);
  if (facts === undefined) return toNotFoundAnswer(about);
  const planned = plan(facts);
  if (planned.kind === "refused") return toFailureAnswer({ ...planned, code: 422, about });
  if (planned.kind === "conflict") {
    return toFailureAnswer({ code: 409, message: planned.message, about });
  }
  try {
    await planned.act();
  } catch (error) {
    if (isAppError(error, "KUBE_CONFLICT")) return "again";
    throw error;
  }
  const vm = `${call.namespace}/${call.name}`;
  if (!call.dryRun) deps.log.info(planned.message, { vm, user: call.user.name });
  return toAcceptedAnswer(planned.message);
}

/** Reads the VM, plans and acts, again where somebody else was faster; the message is the log line too. */
export function changeRunState(
  deps: Deps,
  call: Call,
  plan: (facts: RunFacts) => RunPlan,
): Promise<Answer> {
  return deps.turns.take(`${call.namespace}/${call.name}`, async () => {
    const answer = await insist(() => tryOnce(deps, call, plan));
    return answer ?? toLostAnswer({ type: VIRTUAL_MACHINES, name: call.name });
  });
}
