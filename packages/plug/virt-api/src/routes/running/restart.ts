// SPDX-License-Identifier: Apache-2.0
// PUT .../restart: a VM's guest is to end and to come anew.
import { parseRestartBody, planRestart } from "@patchbay/core";
import { changeRunState } from "../../changes/run-state.ts";
import type { Deps } from "../../deps.ts";
import type { CallHandler } from "../call.ts";

/** Answers 202; 409 where nothing runs; 422 where the guest would end and not come back. */
export function restart(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseRestartBody, plan: planRestart });
}
