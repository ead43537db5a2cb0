// SPDX-License-Identifier: Apache-2.0
// The VM or VMI whose NICs a request changes.
import {
  isVmiFinal,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
  type JsonPatchOperation,
} from "@patchbay/api";
import type { NodeLoss } from "../node/node-loss.ts";
import type { Nics } from "../nics/nics.ts";
import { nicsPatch } from "../nics/spec-plan.ts";
import { toRefusal, type Refusal } from "./refusal.ts";

export type NicTarget =
  | { readonly kind: "vm"; readonly vm: VirtualMachine; readonly vmi?: VirtualMachineInstance }
  | { readonly kind: "vmi"; readonly vmi: VirtualMachineInstance };

export function specOf(target: NicTarget): VmiSpec {
  return target.kind === "vm" ? target.vm.spec.template.spec : target.vmi.spec;
}

export function namespaceOf(target: NicTarget): string {
  return (target.kind === "vm" ? target.vm : target.vmi).metadata.namespace ?? "";
}

export function isOver(vmi: VirtualMachineInstance): boolean {
  return isVmiFinal(vmi) || vmi.metadata.deletionTimestamp !== undefined;
}

export function findLiveVmi(target: NicTarget): VirtualMachineInstance | undefined {
  const { vmi } = target;
  return vmi === undefined || isOver(vmi) ? undefined : vmi;
}

const NODE_LOST: NodeLoss["reason"] = "NodeUnresponsive";

function describeLoss({ status }: VirtualMachineInstance): string {
  const lossMessage = status?.conditions?.find(({ reason }) => reason === NODE_LOST)?.message;
  return status?.phase === "Unknown" && lossMessage !== undefined ? `: ${lossMessage}` : "";
}

/** Why the target accepts no request now. Source: KubeVirt v1.0.0-rc.0 virt-api/rest ("VMI is not running"). */
export function targetProblem(target: NicTarget): Refusal | undefined {
  if (target.kind === "vm") {
    return target.vm.metadata.deletionTimestamp === undefined
      ? undefined
      : toRefusal(409, [], "VM is being deleted");
  }
  const { status, metadata } = target.vmi;
  if (metadata.deletionTimestamp === undefined && status?.phase === "Running") return undefined;
  return toRefusal(409, [], `VMI is not running${describeLoss(target.vmi)}`);
}

export function patchTarget(target: NicTarget, to: Nics): readonly JsonPatchOperation[] {
  const place =
    target.kind === "vm"
      ? { object: target.vm, base: "/spec/template/spec" }
      : { object: target.vmi, base: "/spec" };
  return nicsPatch({ ...place, spec: specOf(target) }, to);
}
