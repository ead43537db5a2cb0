// SPDX-License-Identifier: Apache-2.0
// PUT .../restart: a VM's guest is to end and to come anew.
import { runStrategyOf, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import type { Call, CallHandler } from "./call.ts";
import type { Deps } from "../deps.ts";
import {
  changeRunState,
  hasGuest,
  ifStartable,
  noManualRequests,
  requestStateChange,
  type RunFacts,
  type RunPlan,
} from "../changes/run-state.ts";

/** The VMI goes; the VM makes another one, since it is to run. */
async function endVmi(deps: Deps, call: Call, uid: string): Promise<void> {
  if (call.dryRun) return;
  await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, call, { uid });
}

function planRestart(deps: Deps, call: Call, facts: RunFacts): RunPlan {
  const message = "virtual machine is to be restarted";
  const uid = facts.vmi?.metadata.uid;
  if (!hasGuest(facts) || uid === undefined) {
    return runStrategyOf(facts.vm) === "Halted"
      ? noManualRequests(facts, "restart")
      : { kind: "conflict", message: "VM is not running" };
  }
  switch (runStrategyOf(facts.vm)) {
    case "Always":
      return { kind: "act", act: () => endVmi(deps, call, uid), message };
    case "Manual":
    case "RerunOnFailure": {
      const requests = [{ action: "Stop", uid }, { action: "Start" }] as const;
      return { kind: "act", act: () => requestStateChange(deps, call, requests), message };
    }
    case "Halted":
    case "Once":
      return noManualRequests(facts, "restart");
  }
}

/** Answers 202; 409 where nothing runs; 422 where the guest would end and not come back. */
export function restart(deps: Deps): CallHandler {
  return (call) =>
    changeRunState(deps, call, (facts) => ifStartable(facts, planRestart(deps, call, facts)));
}
