// SPDX-License-Identifier: Apache-2.0
// Carries out start, stop and restart: one write, repeated after a conflict.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type FieldProblem,
  type StateChangeRequest,
  type VirtualMachine,
} from "@patchbay/api";
import type { Parsed, RunStateFacts, RunStateOptions, RunStatePlan } from "@patchbay/core/requests";
import {
  type Call,
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import { retryOnConflict } from "./retry.ts";
import { listTwinCauses } from "../admission/twins.ts";
import { expandVm } from "../expansion.ts";
import { findVmWithVmi } from "./targets.ts";

type Accepted = Exclude<RunStatePlan, { kind: "refused" }>;

interface StatusChange {
  readonly requests?: readonly StateChangeRequest[];
  readonly endsPause?: true;
}

/** Source: KubeVirt VirtualMachineStateChangeRequest. */
async function writeStatus(
  deps: Deps,
  { requests, endsPause }: StatusChange,
  call: Call,
): Promise<void> {
  const status = {
    ...(requests !== undefined && { stateChangeRequests: requests }),
    ...(endsPause === true && { startFailure: null }),
  };
  if (Object.keys(status).length === 0) return;
  const fields = { status };
  const options = { subresource: "status", dryRun: call.dryRun } as const;
  await deps.store.patch(VIRTUAL_MACHINES, call, { type: "merge", fields }, options);
}

async function write(deps: Deps, plan: Accepted, call: Call): Promise<void> {
  const { dryRun } = call;
  if (plan.vmiOperations !== undefined) {
    const patch = { type: "json", operations: plan.vmiOperations } as const;
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, call, patch, { dryRun });
  }
  switch (plan.kind) {
    case "patchVm": {
      await writeStatus(deps, plan, call);
      const patch = { type: "json", operations: plan.operations } as const;
      await deps.store.patch(VIRTUAL_MACHINES, call, patch, { dryRun });
      return;
    }
    case "askController":
      await writeStatus(deps, plan, call);
      return;
    case "deleteVmi":
      await writeStatus(deps, plan, call);
      if (!dryRun) await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, call, { uid: plan.uid });
      return;
    case "hurryVmi":
  }
}

export interface RunStateChange {
  readonly parse: (body: unknown) => Parsed<RunStateOptions>;
  readonly plan: (facts: RunStateFacts) => RunStatePlan;
}

function findMacsInUse(deps: Deps, call: Call, vm: VirtualMachine): readonly FieldProblem[] {
  const { namespace, name } = call;
  const { spec } = vm.spec.template;
  const check = { namespace, name, spec, old: undefined, base: "spec.template.spec" };
  return listTwinCauses(deps, check).map(({ field, message }) => ({ field, message }));
}

async function tryOnce(
  deps: Deps,
  call: Call,
  plan: (facts: Omit<RunStateFacts, "options">) => RunStatePlan,
): Promise<Answer> {
  const about = { type: VIRTUAL_MACHINES, name: call.name };
  const facts = await findVmWithVmi(deps.store, call);
  if (facts === undefined) return toNotFoundAnswer(about);
  const expansion = await expandVm(deps.store, facts.vm);
  const macsInUse = findMacsInUse(deps, call, expansion.vm);
  const planned = plan({ ...facts, expansion, macsInUse, config: deps.networkConfig() });
  if (planned.kind === "refused") return toRefusalAnswer(planned.refusal, about);
  await write(deps, planned, call);
  const vm = `${call.namespace}/${call.name}`;
  if (!call.dryRun) deps.log.info(planned.message, { vm, user: call.user.name });
  return toAcceptedAnswer(planned.message);
}

/** Repeats reading, planning and writing after a conflict. A malformed body is 400, even without a VM. */
export function changeRunState(deps: Deps, call: Call, change: RunStateChange): Promise<Answer> {
  const about = { type: VIRTUAL_MACHINES, name: call.name };
  const parsed = change.parse(call.body);
  if (!parsed.ok) return Promise.resolve(toRefusalAnswer(parsed.refusal, about));
  const plan = (facts: RunStateFacts): RunStatePlan =>
    change.plan({ ...facts, options: parsed.value });
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    retryOnConflict(() => tryOnce(deps, call, plan), deps, about),
  );
}
