// SPDX-License-Identifier: Apache-2.0
// Whether a guest as it is reported has a stream to give. Source: KubeVirt pkg/virt-api/rest/console.go, vnc.go and
// portforward.go, whose words these are.
import { isDefaultNetwork, type VirtualMachineInstance } from "@patchbay/api";
import type { GuestStream } from "../../guest/streams.ts";
import { toRefusal, type Refusal } from "../../plan/request/refusal.ts";
import { findCondition, PAUSED } from "../conditions.ts";

const MISSING: Readonly<Record<GuestStream, string>> = {
  console: "No serial consoles are present.",
  vnc: "No graphics devices are present.",
};

function hasDevice({ spec }: VirtualMachineInstance, stream: GuestStream): boolean {
  const { autoattachSerialConsole, autoattachGraphicsDevice } = spec.domain.devices ?? {};
  return (stream === "console" ? autoattachSerialConsole : autoattachGraphicsDevice) ?? true;
}

/** Why there is none; undefined: its node is asked. */
export function guestStreamProblem(
  vmi: VirtualMachineInstance,
  stream: GuestStream,
): Refusal | undefined {
  if (!hasDevice(vmi, stream)) return toRefusal(400, [], MISSING[stream]);
  return runningProblem(vmi);
}

/** Why nothing of a guest is to be had; undefined: it runs. */
export function runningProblem(vmi: VirtualMachineInstance): Refusal | undefined {
  const { phase } = vmi.status ?? {};
  if (phase === "Failed") return toRefusal(409, [], "VMI is in failed status");
  return phase === "Running" ? undefined : toRefusal(400, [], "VMI is not running");
}

function forwardProblem({ status }: VirtualMachineInstance): Refusal | undefined {
  if (findCondition(status?.conditions, PAUSED)?.status === "True") {
    return toRefusal(409, [], "VMI is paused");
  }
  return status?.phase === "Running" ? undefined : toRefusal(400, [], "VMI is not running");
}

/**
 * Where ports of a guest are reached: at the address that its pod has in the cluster, which no guest can choose; or why
 * they are not.
 */
export function findForwardAddress(
  vmi: VirtualMachineInstance,
): { readonly address: string } | { readonly refusal: Refusal } {
  const problem = forwardProblem(vmi);
  if (problem !== undefined) return { refusal: problem };
  const { attachments = [] } = vmi.status ?? {};
  const podNetwork = (vmi.spec.networks ?? []).find(isDefaultNetwork)?.name;
  const [address] = attachments.find(({ name }) => name === podNetwork)?.ips ?? [];
  if (address !== undefined) return { address };
  return { refusal: toRefusal(400, [], "no network interfaces are present") };
}
