// SPDX-License-Identifier: Apache-2.0
// PUT .../start: a VM is to run.
import { parseStartBody, planStart } from "@patchbay/core";
import { changeRunState } from "../../changes/run-state.ts";
import type { Deps } from "../../deps.ts";
import type { CallHandler } from "../call.ts";

/** Answers 202; 409 where a guest runs already or the run strategy starts it; 422 where it cannot be started at all. */
export function start(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStartBody, plan: planStart });
}
