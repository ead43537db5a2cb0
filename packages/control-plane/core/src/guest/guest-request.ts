// SPDX-License-Identifier: Apache-2.0
// Checks requests to a guest against the VMI's status. Source of the messages: KubeVirt pkg/virt-api/rest lifecycle.go,
// subresource.go, console.go, vnc.go and portforward.go.
import { type VirtualMachineInstance, isDefaultNetwork } from "@patchbay/api";
import type { GuestRequest, GuestStream } from "./requests.ts";
import { AGENT_CONNECTED, findCondition, PAUSED } from "../status/conditions.ts";
import { toRefusal, type Refusal } from "../requests/refusal.ts";

function hasCondition({ status }: VirtualMachineInstance, type: string): boolean {
  return findCondition(status?.conditions, type)?.status === "True";
}

type ProblemFinder = (vmi: VirtualMachineInstance) => string | undefined;

const requireAgent: ProblemFinder = (vmi) =>
  hasCondition(vmi, AGENT_CONNECTED)
    ? undefined
    : "VMI does not have guest agent connected; install qemu-guest-agent in the guest and start it";

const PROBLEM_FINDERS: Readonly<Record<GuestRequest, ProblemFinder>> = {
  pause: (vmi) => (hasCondition(vmi, PAUSED) ? "VMI is already paused" : undefined),
  unpause: (vmi) => (hasCondition(vmi, PAUSED) ? undefined : "VMI is not paused"),
  softreboot: (vmi) => (hasCondition(vmi, PAUSED) ? "VMI is paused" : undefined),
  reset: () => undefined,
  guestosinfo: requireAgent,
  userlist: requireAgent,
  filesystemlist: requireAgent,
  interfacetraffic: () => undefined,
};

function refuseNotRunning(request: GuestRequest, phase: string): Refusal {
  if (request === "reset") {
    const reason = `Unable to connect to VirtualMachineInstance because phase is ${phase} instead of Running or Scheduled`;
    return toRefusal(400, [], `Failed to reset non-running VMI with phase ${phase}: ${reason}`);
  }
  const isPowerRequest = request === "pause" || request === "softreboot";
  return toRefusal(409, [], isPowerRequest ? "VM is not running" : "VMI is not running");
}

export function checkGuestRequest(
  vmi: VirtualMachineInstance,
  request: GuestRequest,
): Refusal | undefined {
  const phase = vmi.status?.phase ?? "Pending";
  if (phase !== "Running") return refuseNotRunning(request, phase);
  // A paused guest would fail its liveness probe, and the kubelet would kill the container.
  if (request === "pause" && vmi.spec.livenessProbe !== undefined) {
    return toRefusal(403, [], "Pausing VMIs with LivenessProbe is currently not supported");
  }
  const problem = PROBLEM_FINDERS[request](vmi);
  return problem === undefined ? undefined : toRefusal(409, [], problem);
}

const MISSING_DEVICE_MESSAGES: Readonly<Record<GuestStream, string>> = {
  console: "No serial consoles are present.",
  vnc: "No graphics devices are present.",
};

function hasDevice({ spec }: VirtualMachineInstance, stream: GuestStream): boolean {
  const { autoattachSerialConsole, autoattachGraphicsDevice } = spec.domain.devices ?? {};
  return (stream === "console" ? autoattachSerialConsole : autoattachGraphicsDevice) ?? true;
}

export function checkGuestStream(
  vmi: VirtualMachineInstance,
  stream: GuestStream,
): Refusal | undefined {
  if (!hasDevice(vmi, stream)) return toRefusal(400, [], MISSING_DEVICE_MESSAGES[stream]);
  return checkRunning(vmi);
}

export function checkRunning(vmi: VirtualMachineInstance): Refusal | undefined {
  const { phase } = vmi.status ?? {};
  if (phase === "Failed") return toRefusal(409, [], "VMI is in failed status");
  return phase === "Running" ? undefined : toRefusal(400, [], "VMI is not running");
}

function checkForwarding({ status }: VirtualMachineInstance): Refusal | undefined {
  if (findCondition(status?.conditions, PAUSED)?.status === "True") {
    return toRefusal(409, [], "VMI is paused");
  }
  return status?.phase === "Running" ? undefined : toRefusal(400, [], "VMI is not running");
}

/**
 * Returns the pod's address for port forwarding, or the refusal. Addresses that the guest reports are not used, because
 * they are not trusted. Addresses on a network of a NetworkAttachmentDefinition are not used either: a tenant chooses them, and
 * virt-api would connect to them from its own network.
 */
export function findForwardAddress(
  vmi: VirtualMachineInstance,
): { readonly address: string } | { readonly refusal: Refusal } {
  const problem = checkForwarding(vmi);
  if (problem !== undefined) return { refusal: problem };
  const { attachments = [] } = vmi.status ?? {};
  const network = (vmi.spec.networks ?? []).find(isDefaultNetwork);
  if (network?.multus !== undefined) {
    const message = `port forwarding is for the pod network only; interface '${network.name}' is on network ${network.multus.networkName}`;
    return { refusal: toRefusal(400, [], message) };
  }
  const podNetwork = network?.name;
  const [address] = attachments.find(({ name }) => name === podNetwork)?.ips ?? [];
  if (address !== undefined) return { address };
  return { refusal: toRefusal(400, [], "no network interfaces are present") };
}
