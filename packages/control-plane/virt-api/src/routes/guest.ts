// SPDX-License-Identifier: Apache-2.0
// Subresources of VMIs whose requests are forwarded to virt-handler.
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import {
  GUEST_REQUESTS,
  checkGuestRequest,
  type GuestRequest,
  parseDoctorQuery,
  checkRunning,
} from "@patchbay/core/guest";
import { findByName, ifacesOf } from "@patchbay/core/nics";
import type { Deps } from "../deps.ts";
import type { HandlerAnswer } from "../handlers/client.ts";
import {
  toOkAnswer,
  toNodeAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type ObjectRef,
  type Answer,
  toFailureAnswer,
  type CallHandler,
} from "../http/calls.ts";

const DONE_MESSAGES: Readonly<Partial<Record<GuestRequest, string>>> = {
  pause: "the virtual machine instance is paused",
  unpause: "the virtual machine instance was resumed",
  reset: "the virtual machine instance was reset",
  softreboot: "a reboot of the guest was requested",
};

function toAnswer(
  { code, body }: HandlerAnswer,
  request: GuestRequest,
  objectRef: ObjectRef,
): Answer {
  if (code >= 400) return toNodeAnswer({ code, body }, objectRef);
  return GUEST_REQUESTS[request] === "get"
    ? { code: 200, body }
    : toOkAnswer(DONE_MESSAGES[request] ?? "");
}

/** Forwards the request to virt-handler. Responds with 400 or 409 if the guest's state forbids the request. */
export function requestGuest(deps: Deps, request: GuestRequest): CallHandler {
  return async (call) => {
    const objectRef = { type: VIRTUAL_MACHINE_INSTANCES, name: call.name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, call);
    if (vmi === undefined) return toNotFoundAnswer(objectRef);
    const problem = checkGuestRequest(vmi, request);
    if (problem !== undefined) return toRefusalAnswer(problem, objectRef);
    if (call.dryRun && GUEST_REQUESTS[request] === "put")
      return toOkAnswer(DONE_MESSAGES[request] ?? "");
    const key = { namespace: call.namespace, name: call.name };
    const answer = await deps.sendToHandler(vmi.status?.nodeName ?? "", key, request);
    const fields = { vmi: `${call.namespace}/${call.name}`, request, user: call.user.name };
    if (answer.code < 400 && GUEST_REQUESTS[request] === "put")
      deps.log.info("forwarded a guest request", fields);
    return toAnswer(answer, request, objectRef);
  };
}

function toProblemsAnswer(problems: readonly string[]): Answer {
  return toFailureAnswer({ code: 400, message: problems.join("; ") });
}

/** Examines an interface. The response is 429 if the node is busy, and 400, 404 or 409 if the interface cannot be examined. */
export function examine(deps: Deps): CallHandler {
  return async ({ namespace, name, query }) => {
    const objectRef = { type: VIRTUAL_MACHINE_INSTANCES, name };
    const parsed = parseDoctorQuery(query);
    if ("problems" in parsed) return toProblemsAnswer(parsed.problems);
    const key = { namespace, name };
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
    if (vmi === undefined) return toNotFoundAnswer(objectRef);
    const { iface } = parsed;
    if (findByName(ifacesOf(vmi.spec), iface) === undefined) {
      const message = `interface: the VM has no interface ${iface}`;
      return toFailureAnswer({ code: 404, message, objectRef });
    }
    const problem = checkRunning(vmi);
    if (problem !== undefined) return toRefusalAnswer(problem, objectRef);
    const { nodeName = "" } = vmi.status ?? {};
    const answer = await deps.sendToHandler(nodeName, key, { examine: iface });
    return answer.code >= 400 ? toNodeAnswer(answer, objectRef) : { code: 200, body: answer.body };
  };
}
