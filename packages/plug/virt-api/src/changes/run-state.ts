// SPDX-License-Identifier: Apache-2.0
// How a plan about running is carried out: one write, tried again when somebody else was faster.
import { VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES } from "@patchbay/api";
import type { RunStateFacts, RunStatePlan } from "@patchbay/core";
import type { Call } from "../routes/call.ts";
import type { Deps } from "../deps.ts";
import { insist } from "./races.ts";
import {
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import { findVmWithVmi } from "./targets.ts";

/** Source of the second: KubeVirt VirtualMachineStateChangeRequest. */
async function write(
  deps: Deps,
  plan: Exclude<RunStatePlan, { kind: "refused" }>,
  call: Call,
): Promise<void> {
  const { dryRun } = call;
  switch (plan.kind) {
    case "patchVm": {
      const patch = { type: "json", operations: plan.operations } as const;
      await deps.store.patch(VIRTUAL_MACHINES, call, patch, { dryRun });
      return;
    }
    case "askController": {
      const fields = { status: { stateChangeRequests: plan.requests } };
      const options = { subresource: "status", dryRun } as const;
      await deps.store.patch(VIRTUAL_MACHINES, call, { type: "merge", fields }, options);
      return;
    }
    case "deleteVmi":
      if (!dryRun) await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, call, { uid: plan.uid });
  }
}

async function tryOnce(
  deps: Deps,
  call: Call,
  plan: (facts: RunStateFacts) => RunStatePlan,
): Promise<Answer> {
  const about = { type: VIRTUAL_MACHINES, name: call.name };
  const facts = await findVmWithVmi(deps.store, call);
  if (facts === undefined) return toNotFoundAnswer(about);
  const planned = plan({ ...facts, config: deps.networkConfig() });
  if (planned.kind === "refused") return toRefusalAnswer(planned.refusal, about);
  await write(deps, planned, call);
  const vm = `${call.namespace}/${call.name}`;
  if (!call.dryRun) deps.log.info(planned.message, { vm, user: call.user.name });
  return toAcceptedAnswer(planned.message);
}

/** Reads the VM, plans and writes, again where somebody else was faster; the plan's message is the log line too. */
export function changeRunState(
  deps: Deps,
  call: Call,
  plan: (facts: RunStateFacts) => RunStatePlan,
): Promise<Answer> {
  const about = { type: VIRTUAL_MACHINES, name: call.name };
  return deps.mutex.runExclusive(`${call.namespace}/${call.name}`, () =>
    insist(() => tryOnce(deps, call, plan), deps, about),
  );
}
