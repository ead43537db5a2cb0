// SPDX-License-Identifier: Apache-2.0
// doctor of a VMI: its node tells at which hop frames of an interface die.
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { findByName, ifacesOf, parseDoctorQuery, runningProblem } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import {
  toFailureAnswer,
  toNodeAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../http/answers.ts";
import type { CallHandler } from "./call.ts";

function toProblemsAnswer(problems: readonly string[]): Answer {
  return toFailureAnswer({ code: 400, message: problems.join("; ") });
}

/**
 * Answers 200 with a DoctorReport; 400, 404 or 409 where there is nothing to examine, 429 while it is being examined, 503
 * where its node does not answer.
 */
export function examine(deps: Deps): CallHandler {
  return async ({ namespace, name, query }) => {
    const about = { type: VIRTUAL_MACHINE_INSTANCES, name };
    const asked = parseDoctorQuery(query);
    if ("problems" in asked) return toProblemsAnswer(asked.problems);
    const key = { namespace, name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
    if (vmi === undefined) return toNotFoundAnswer(about);
    const { iface } = asked;
    if (findByName(ifacesOf(vmi.spec), iface) === undefined) {
      const message = `interface: the VM has no interface ${iface}`;
      return toFailureAnswer({ code: 404, message, about });
    }
    const problem = runningProblem(vmi);
    if (problem !== undefined) return toRefusalAnswer(problem, about);
    const { nodeName = "" } = vmi.status ?? {};
    const answer = await deps.askHandler(nodeName, key, { examine: iface });
    return answer.code >= 400 ? toNodeAnswer(answer, about) : { code: 200, body: answer.body };
  };
}
