// SPDX-License-Identifier: Apache-2.0
// PUT .../stop: a VM is not to run any longer.
import { runStrategyOf, VIRTUAL_MACHINES } from "@patchbay/api";
import type { Call, CallHandler, Deps } from "../call.ts";
import {
  changeRunState,
  hasGuest,
  noManualRequests,
  patchRunning,
  requestStateChange,
  type RunFacts,
  type RunPlan,
} from "../run-state.ts";

function planStop(deps: Deps, call: Call, facts: RunFacts): RunPlan {
  const message = "virtual machine is to be stopped";
  const uid = facts.vmi?.metadata.uid;
  switch (runStrategyOf(facts.vm)) {
    case "Halted":
      return hasGuest(facts)
        ? noManualRequests(facts, "stop")
        : { kind: "conflict", message: "VM is not running" };
    case "Manual":
    case "RerunOnFailure": {
      if (!hasGuest(facts) || uid === undefined) {
        return { kind: "conflict", message: "VM is not running" };
      }
      const act = () => requestStateChange(deps, call, [{ action: "Stop", uid }]);
      return { kind: "act", act, message };
    }
    case "Always":
    case "Once": {
      const patch = patchRunning(facts.vm, false);
      const options = { dryRun: call.dryRun };
      const act = () => deps.store.patch(VIRTUAL_MACHINES, call, patch, options);
      return { kind: "act", act, message };
    }
  }
}

/** Makes the route. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, (facts) => planStop(deps, call, facts));
}
