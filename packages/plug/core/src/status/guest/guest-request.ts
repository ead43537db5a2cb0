// SPDX-License-Identifier: Apache-2.0
// Whether something can be asked of a guest as it is reported. Source: KubeVirt pkg/virt-api/rest/lifecycle.go and
// subresource.go, whose words these are.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { GuestRequest } from "../../guest/requests.ts";
import { AGENT_CONNECTED, findCondition, PAUSED } from "../conditions.ts";
import { toRefusal, type Refusal } from "../../plan/request/refusal.ts";

function has({ status }: VirtualMachineInstance, type: string): boolean {
  return findCondition(status?.conditions, type)?.status === "True";
}

/** Why it cannot, of a guest that runs. */
type Problem = (vmi: VirtualMachineInstance) => string | undefined;

const needsAgent: Problem = (vmi) =>
  has(vmi, AGENT_CONNECTED)
    ? undefined
    : "VMI does not have guest agent connected; install qemu-guest-agent in the guest and start it";

const PROBLEMS: Readonly<Record<GuestRequest, Problem>> = {
  pause: (vmi) => (has(vmi, PAUSED) ? "VMI is already paused" : undefined),
  unpause: (vmi) => (has(vmi, PAUSED) ? undefined : "VMI is not paused"),
  softreboot: (vmi) => (has(vmi, PAUSED) ? "VMI is paused" : undefined),
  reset: () => undefined,
  guestosinfo: needsAgent,
  userlist: needsAgent,
  filesystemlist: needsAgent,
  interfacetraffic: () => undefined,
};

function notRunning(request: GuestRequest, phase: string): Refusal {
  if (request === "reset") {
    const why = `Unable to connect to VirtualMachineInstance because phase is ${phase} instead of Running or Scheduled`;
    return toRefusal(400, [], `Failed to reset non-running VMI with phase ${phase}: ${why}`);
  }
  const isPower = request === "pause" || request === "softreboot";
  return toRefusal(409, [], isPower ? "VM is not running" : "VMI is not running");
}

/** Why the request is refused before its node is asked; undefined: it is not. */
export function guestRequestProblem(
  vmi: VirtualMachineInstance,
  request: GuestRequest,
): Refusal | undefined {
  const phase = vmi.status?.phase ?? "Pending";
  if (phase !== "Running") return notRunning(request, phase);
  // It would be ended for want of an answer.
  if (request === "pause" && vmi.spec.livenessProbe !== undefined) {
    return toRefusal(403, [], "Pausing VMIs with LivenessProbe is currently not supported");
  }
  const problem = PROBLEMS[request](vmi);
  return problem === undefined ? undefined : toRefusal(409, [], problem);
}
