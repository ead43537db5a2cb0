// SPDX-License-Identifier: Apache-2.0
// PUT .../start: a VM is to run.
import { runStrategyOf, VIRTUAL_MACHINES, type StateChangeRequest } from "@patchbay/api";
import type { Call, CallHandler } from "./call.ts";
import type { Deps } from "../deps.ts";
import {
  changeRunState,
  hasGuest,
  ifStartable,
  noManualRequests,
  patchRunning,
  requestStateChange,
  type RunFacts,
  type RunPlan,
} from "../changes/run-state.ts";

/** A VMI whose guest has ended goes first. Source: KubeVirt pkg/virt-api/rest/lifecycle.go StartVMRequestHandler. */
function startRequests({ vmi }: RunFacts): readonly StateChangeRequest[] {
  const uid = vmi?.metadata.uid;
  return uid === undefined ? [{ action: "Start" }] : [{ action: "Stop", uid }, { action: "Start" }];
}

function planStart(deps: Deps, call: Call, facts: RunFacts): RunPlan {
  const message = "virtual machine is to be started";
  if (hasGuest(facts)) return { kind: "conflict", message: "VM is already running" };
  switch (runStrategyOf(facts.vm)) {
    case "Halted": {
      const patch = patchRunning(facts.vm, true);
      const options = { dryRun: call.dryRun };
      const act = () => deps.store.patch(VIRTUAL_MACHINES, call, patch, options);
      return { kind: "act", act, message };
    }
    case "Manual":
    case "RerunOnFailure":
      return {
        kind: "act",
        act: () => requestStateChange(deps, call, startRequests(facts)),
        message,
      };
    case "Always":
    case "Once":
      return noManualRequests(facts, "start");
  }
}

/** Answers 202; 409 where a guest runs already or the run strategy starts it; 422 where it cannot be started at all. */
export function start(deps: Deps): CallHandler {
  return (call) =>
    changeRunState(deps, call, (facts) => ifStartable(facts, planStart(deps, call, facts)));
}
