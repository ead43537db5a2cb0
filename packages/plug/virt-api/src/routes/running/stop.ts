// SPDX-License-Identifier: Apache-2.0
// PUT .../stop: a VM is not to run any longer.
import { parseStopBody, planStop } from "@patchbay/core";
import { changeRunState } from "../../changes/run-state.ts";
import type { Deps } from "../../deps.ts";
import type { CallHandler } from "../call.ts";

/** Answers 202, also when a start that is still waited for is taken back; 409 where nothing runs. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStopBody, plan: planStop });
}
