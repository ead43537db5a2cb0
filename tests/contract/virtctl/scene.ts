// SPDX-License-Identifier: Apache-2.0
// A VM in each state that a virtctl request can find.
import type { VirtualMachine, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { vmManifest } from "@patchbay/support";
import type { Harness } from "../apiserver/harness.ts";

const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
const NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const MERGE = "application/merge-patch+json";
const NODE = { nodeName: "node1", activePods: { "pod-uid": "node1" } };
const AGENT = { type: "AgentConnected", status: "True" } as const;
const PAUSED = { type: "Paused", status: "True" } as const;
/**
 * The guest's ports: a loopback address unique to this process, also beside another checkout. Pids have 15 bits, or 22.
 * Source: proc(5), pid_max
 */
export const GUEST = {
  address: `127.${String(64 | (process.pid >> 16))}.${String((process.pid >> 8) & 255)}.${String(process.pid & 255)}`,
  port: 30_022,
};
const RUNNING = {
  phase: "Running",
  ...NODE,
  pciePorts: { total: 8, free: 8 },
  attachments: [
    { name: "default", podInterfaceName: "eth0", state: "Attached", ips: [GUEST.address] },
  ],
} as const satisfies VmiStatus;

/** The VM's state: its run strategy, and its VMI's status. */
export type State =
  | "none"
  | "off"
  | "manual"
  | "always"
  | "starting"
  | "running"
  | "paused"
  | "stopping";

const STATES: Readonly<Record<State, { readonly strategy?: string; readonly status?: VmiStatus }>> =
  {
    none: {},
    off: { strategy: "Halted" },
    manual: { strategy: "Manual" },
    always: { strategy: "Always" },
    starting: { strategy: "Always", status: { phase: "Scheduled", ...NODE } },
    running: { strategy: "Always", status: { ...RUNNING, conditions: [AGENT] } },
    paused: { strategy: "Always", status: { ...RUNNING, conditions: [PAUSED] } },
    stopping: { strategy: "Halted", status: RUNNING },
  };

/** Name of the VM in all states. */
export const NAME = "vm1";

async function makeVmi(api: Harness, vm: VirtualMachine, status: VmiStatus): Promise<void> {
  const { name, uid = "" } = vm.metadata;
  const owner = { apiVersion: vm.apiVersion, kind: vm.kind, name, uid, controller: true };
  const vmi: VirtualMachineInstance = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name, namespace: "default", ownerReferences: [owner] },
    spec: vm.spec.template.spec,
  };
  await api.post(VMIS, vmi);
  await api.ask("PATCH", `${VMIS}/${name}/status`, { body: { status }, type: MERGE });
}

/** Creates the state after removing the previous one. */
export async function bringAbout(api: Harness, state: State): Promise<void> {
  for (const path of [VMIS, VMS]) await api.ask("DELETE", `${path}/${NAME}`);
  const { strategy, status } = STATES[state];
  if (strategy === undefined) return;
  const manifest = vmManifest({ name: NAME }) as VirtualMachine;
  const spec = { ...manifest.spec, runStrategy: strategy };
  const answer = await api.post(VMS, { ...manifest, spec });
  if (status !== undefined) await makeVmi(api, answer.body as unknown as VirtualMachine, status);
}

/** The network for plugs. */
export async function makeNetwork(api: Harness): Promise<void> {
  const config = '{"cniVersion":"1.0.0","name":"blue","type":"bridge"}';
  const answer = await api.post(NADS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "blue" },
    spec: { config },
  });
  if (answer.code !== 201) throw new Error(answer.text);
}
