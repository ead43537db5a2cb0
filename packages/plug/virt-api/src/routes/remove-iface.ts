// SPDX-License-Identifier: Apache-2.0
// PUT .../removeinterface: unplugs an iface.
import { parseRemoveIface, planRemoveIface, type NicTarget } from "@patchbay/core";
import type { Call, CallHandler } from "./call.ts";
import type { Deps } from "../deps.ts";
import { changeNics } from "../changes/change-nics.ts";
import { aboutTarget } from "../changes/targets.ts";
import { toRefusalAnswer } from "../http/answers.ts";

/** Answers `removeinterface` of VMs or of VMIs; what is asked of a VMI that a VM owns is done to the VM. */
export function removeIface(deps: Deps, asked: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseRemoveIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, aboutTarget(asked, call));
    const request = parsed.value;
    return changeNics(
      deps,
      {
        asked,
        plan: (target) => planRemoveIface({ target, request }),
        done: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("interface is to be unplugged", {
            [target.kind]: object,
            iface: request.name,
            user: call.user.name,
          });
        },
      },
      call,
    );
  };
}
