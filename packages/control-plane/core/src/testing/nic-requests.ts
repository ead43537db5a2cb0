// SPDX-License-Identifier: Apache-2.0
// VMs and VMIs on the pod network, with or without a NIC `blue`, and plug and unplug requests.
import type {
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiStatus,
} from "@patchbay/api";
import {
  planAddIface,
  type AddIfaceRequest,
  planRemoveIface,
  type NicTarget,
} from "../requests/ifaces.ts";
import type { NicPlan } from "../requests/refusal.ts";

export const POD_NETWORK: Network = { name: "default", pod: {} };
export const POD_IFACE: Iface = { name: "default", bridge: {} };
export const BLUE_NETWORK: Network = { name: "blue", multus: { networkName: "blue-nad" } };
export const BLUE: Iface = { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" };

interface Nics {
  readonly networks?: readonly Network[];
  readonly ifaces?: readonly Iface[];
}

export function specOf({ networks = [POD_NETWORK], ifaces = [POD_IFACE] }: Nics) {
  return { domain: { devices: { interfaces: [...ifaces] } }, networks: [...networks] };
}

export function aVm(nics: Nics = {}): VirtualMachine {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "vm", namespace: "ns", resourceVersion: "7" },
    spec: { runStrategy: "Always", template: { spec: specOf(nics) } },
  };
}

export function aVmi(
  nics: Nics = {},
  status: VmiStatus = { phase: "Running" },
): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name: "vm", namespace: "ns" },
    spec: specOf(nics),
    status,
  };
}

export const WITH_BLUE: Nics = { networks: [POD_NETWORK, BLUE_NETWORK], ifaces: [POD_IFACE, BLUE] };
export const WITH_ABSENT: Nics = {
  ...WITH_BLUE,
  ifaces: [POD_IFACE, { ...BLUE, state: "absent" }],
};

export function add(
  target: NicTarget,
  request: Partial<AddIfaceRequest> = {},
  nadExists = true,
): NicPlan {
  const defaults = { name: "blue", networkAttachmentDefinitionName: "blue-nad", fields: {} };
  return planAddIface({ target, request: { ...defaults, ...request }, nadExists, bindings: {} });
}

export function remove(target: NicTarget, name = "blue"): NicPlan {
  return planRemoveIface({ target, request: { name } });
}

export function writtenNics(plan: NicPlan): unknown {
  return plan.kind === "patch"
    ? plan.operations.flatMap((each) => (each.op === "add" ? [each.value] : []))
    : plan;
}

export function refusalOf(plan: NicPlan): unknown {
  return plan.kind === "refused"
    ? [plan.refusal.code, ...plan.refusal.causes.map(({ reason, field }) => `${reason} ${field}`)]
    : plan;
}
