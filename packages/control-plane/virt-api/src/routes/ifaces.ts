// SPDX-License-Identifier: Apache-2.0
// PUT .../addinterface and PUT .../removeinterface: plug and unplug an interface.
import { chooseMac } from "@patchbay/core/nics";
import {
  parseAddIface,
  planAddIface,
  type NicTarget,
  parseRemoveIface,
  planRemoveIface,
} from "@patchbay/core/requests";
import { type Call, type CallHandler, toFailureAnswer, toRefusalAnswer } from "../http/answers.ts";
import type { Deps } from "../deps.ts";
import { changeNics } from "../changes/change-nics.ts";
import { aboutTarget } from "../changes/targets.ts";
import { hasNad, findNearestNetwork, findForeignNetworkProblem } from "../networks.ts";

export function addIface(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseAddIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, aboutTarget(kind, call));
    const request = parsed.value;
    const network = request.networkAttachmentDefinitionName;
    const reference = { networkName: network, namespace: call.namespace };
    const message = await findForeignNetworkProblem(deps, call.user, reference);
    if (message !== undefined) return toFailureAnswer({ code: 403, message });
    // Runs in parallel with reading the VM; the plan awaits it.
    const nad = hasNad(deps.cachedReader, network, call.namespace);
    const newMac = chooseMac(new Set(), deps.randomBytes);
    const answer = changeNics(
      deps,
      {
        kind,
        plan: async (target) => {
          const { bindings } = deps.networkConfig();
          const nadExists = await nad;
          const suggestion = nadExists
            ? undefined
            : findNearestNetwork(deps, network, call.namespace);
          const facts = {
            target,
            request,
            newMac,
            nadExists,
            nearestNetwork: suggestion,
            bindings,
          };
          return planAddIface(facts);
        },
        logChange: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("requested the plug of an interface", {
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

export function removeIface(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return async (call: Call) => {
    const parsed = parseRemoveIface(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, aboutTarget(kind, call));
    const request = parsed.value;
    return changeNics(
      deps,
      {
        kind,
        plan: (target) => planRemoveIface({ target, request }),
        logChange: (target) => {
          const object = `${call.namespace}/${call.name}`;
          deps.log.info("requested the unplug of an interface", {
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
