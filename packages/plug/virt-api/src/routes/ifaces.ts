// SPDX-License-Identifier: Apache-2.0
// PUT .../addinterface and PUT .../removeinterface: plug and unplug an interface.
import {
  macFor,
  parseAddIface,
  planAddIface,
  type NicTarget,
  parseRemoveIface,
  planRemoveIface,
} from "@patchbay/core";
import { type Call, type CallHandler, toFailureAnswer, toRefusalAnswer } from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import { changeNics } from "../changes/change-nics.ts";
import { aboutTarget } from "../changes/targets.ts";
import { hasNad, nearestNetwork, foreignNetworkProblem } from "../networks.ts";

/** Changes the VM that owns a VMI instead of the VMI. */
export function addIface(deps: Deps, asked: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseAddIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, aboutTarget(asked, call));
    const request = parsed.value;
    const network = request.networkAttachmentDefinitionName;
    const named = { networkName: network, namespace: call.namespace };
    const message = await foreignNetworkProblem(deps, call.user, named);
    if (message !== undefined) return toFailureAnswer({ code: 403, message });
    // Runs in parallel with reading the VM; the plan awaits it.
    const nad = hasNad(deps.known, network, call.namespace);
    const newMac = macFor(new Set(), deps.randomBytes);
    const answer = changeNics(
      deps,
      {
        asked,
        plan: async (target) => {
          const { bindings } = deps.networkConfig();
          const nadExists = await nad;
          const near = nadExists ? undefined : nearestNetwork(deps, network, call.namespace);
          const facts = { target, request, newMac, nadExists, nearestNetwork: near, bindings };
          return planAddIface(facts);
        },
        done: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("interface is to be plugged", {
            [target.kind]: object,
            iface: request.name,
            network,
            user: call.user.name,
          });
        },
      },
      call,
    );
    const [done] = await Promise.all([answer, nad]);
    return done;
  };
}

/** Changes the VM that owns a VMI instead of the VMI. */
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
