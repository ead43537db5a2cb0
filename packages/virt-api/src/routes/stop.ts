// SPDX-License-Identifier: Apache-2.0
// PUT .../stop: a VM is not to run any longer.
import { runStrategyOf, VIRTUAL_MACHINES } from "@patchbay/api";
import type { Call, CallHandler } from "./call.ts";
import type { Deps } from "../deps.ts";
import {
  changeRunState,
  hasGuest,
  noManualRequests,
  patchRunning,
  requestStateChange,
  type RunFacts,
  type RunPlan,
} from "../changes/run-state.ts";

/** The VM waits to be started again; that is taken back. */
function isStartPending({ vm }: RunFacts): boolean {
  return vm.status?.stateChangeRequests?.some(({ action }) => action === "Start") === true;
}

const MESSAGE = "virtual machine is to be stopped";
const NOT_RUNNING: RunPlan = { kind: "conflict", message: "VM is not running" };

/** The run strategy leaves it to requests. */
function planRequest(deps: Deps, call: Call, facts: RunFacts): RunPlan {
  const uid = facts.vmi?.metadata.uid;
  const isAlive = hasGuest(facts) && uid !== undefined;
  if (!isAlive && !isStartPending(facts)) return NOT_RUNNING;
  const requests = isAlive ? [{ action: "Stop", uid } as const] : [];
  return { kind: "act", act: () => requestStateChange(deps, call, requests), message: MESSAGE };
}

function planStop(deps: Deps, call: Call, facts: RunFacts): RunPlan {
  switch (runStrategyOf(facts.vm)) {
    case "Halted":
      return hasGuest(facts) ? noManualRequests(facts, "stop") : NOT_RUNNING;
    case "Manual":
    case "RerunOnFailure":
      return planRequest(deps, call, facts);
    case "Always":
    case "Once": {
      const patch = patchRunning(facts.vm, false);
      const options = { dryRun: call.dryRun };
      const act = () => deps.store.patch(VIRTUAL_MACHINES, call, patch, options);
      return { kind: "act", act, message: MESSAGE };
    }
  }
}

/** Answers 202, also when a start that is still waited for is taken back; 409 where nothing runs. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, (facts) => planStop(deps, call, facts));
}
