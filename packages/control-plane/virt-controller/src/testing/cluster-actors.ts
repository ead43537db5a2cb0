// SPDX-License-Identifier: Apache-2.0
// Writers other than virt-controller: an administrator, the scheduler, the kubelet and the agents.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type RunStrategy,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
  type VmStatus,
} from "@patchbay/api";
import { parseNetworks, type NetworkSelection } from "@patchbay/api/annotations";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { Pod } from "@patchbay/api/kubernetes";
import { launcherPodName } from "@patchbay/core/migration";
import { pointerToken } from "@patchbay/core/status";
import type { KubeClient } from "@patchbay/kube";
import { aVm, eventually, type NicSketch } from "@patchbay/support";

const SOON = { withinMs: 5000 };

/** Returns the current or future name of a VMI's launcher pod. */
export function launcherNameOf(vmi: VirtualMachineInstance): string {
  return launcherPodName(vmi);
}

/** The VM `default/NAME` and all objects created for it. */
export class Scene {
  readonly key: { readonly namespace: string; readonly name: string };
  readonly #admin: KubeClient;

  constructor(admin: KubeClient, name: string) {
    this.#admin = admin;
    this.key = { namespace: "default", name };
  }

  /** Creates a VM, which runs by default. */
  async createVm(nics: readonly NicSketch[], runStrategy: RunStrategy = "Always"): Promise<void> {
    const vm = aVm({ nics });
    const spec = { ...vm.spec, runStrategy };
    await this.#admin.store.create(VIRTUAL_MACHINES, { ...vm, spec, metadata: { ...this.key } });
  }

  async vm(): Promise<VirtualMachine> {
    return eventually(() => this.#admin.store.find(VIRTUAL_MACHINES, this.key), SOON);
  }

  findVmi(): Promise<VirtualMachineInstance | undefined> {
    return this.#admin.store.find(VIRTUAL_MACHINE_INSTANCES, this.key);
  }

  async vmi(): Promise<VirtualMachineInstance> {
    return eventually(() => this.findVmi(), SOON);
  }

  async vmiWhen(
    isSo: (vmi: VirtualMachineInstance) => boolean,
    within = SOON,
  ): Promise<VirtualMachineInstance> {
    return eventually(async () => {
      const vmi = await this.findVmi();
      return vmi !== undefined && isSo(vmi) ? vmi : undefined;
    }, within);
  }

  async vmWhen(isSo: (vm: VirtualMachine) => boolean, within = SOON): Promise<VirtualMachine> {
    return eventually(async () => {
      const vm = await this.vm();
      return isSo(vm) ? vm : undefined;
    }, within);
  }

  async findPod(): Promise<Pod | undefined> {
    const vmi = await this.findVmi();
    if (vmi === undefined) return undefined;
    return this.#admin.store.find(PODS, { namespace: "default", name: launcherNameOf(vmi) });
  }

  async pod(): Promise<Pod> {
    return eventually(() => this.findPod(), SOON);
  }

  async patchPodStatus(operations: readonly JsonPatchOperation[]): Promise<void> {
    const { name } = (await this.pod()).metadata;
    const key = { namespace: "default", name };
    const patch = { type: "json", operations } as const;
    await this.#admin.store.patch(PODS, key, patch, { subresource: "status" });
  }

  /** Schedules and runs the pod, like scheduler and kubelet. */
  async runPod(): Promise<void> {
    const { name } = (await this.pod()).metadata;
    const target = { apiVersion: "v1", kind: "Node", name: "node1" };
    await this.#admin.requestRaw({
      method: "POST",
      path: `/api/v1/namespaces/default/pods/${name}/binding`,
      body: { apiVersion: "v1", kind: "Binding", metadata: { name }, target },
    });
    await this.patchPodStatus([{ op: "add", path: "/status", value: { phase: "Running" } }]);
  }

  /** Returns the networks in the pod's annotation. */
  async elements(): Promise<readonly NetworkSelection[]> {
    const { metadata } = await this.pod();
    const parsed = parseNetworks(metadata.annotations?.[names.NETWORKS_ANNOTATION]);
    return parsed.ok ? parsed.elements : [];
  }

  /** Attaches the networks in the pod's annotation. */
  async attachAll(): Promise<void> {
    const entries = (await this.elements()).map((element) => ({
      name: `${element.namespace ?? ""}/${element.name}`,
      interface: element.interface,
      mac: element.mac,
    }));
    const path = `/metadata/annotations/${pointerToken(names.NETWORK_STATUS_ANNOTATION)}`;
    await this.patchPodStatus([{ op: "add", path, value: JSON.stringify(entries) }]);
  }

  /** Writes virt-handler's fields of the VMI. */
  async reportVmi(status: Partial<VmiStatus>): Promise<void> {
    const operations = Object.entries(status).map(
      ([field, value]) => ({ op: "add", path: `/status/${field}`, value }) as const,
    );
    const options = { subresource: "status" } as const;
    const patch = { type: "json", operations } as const;
    await this.#admin.store.patch(VIRTUAL_MACHINE_INSTANCES, this.key, patch, options);
  }

  /** Writes virt-api's fields of the VM. */
  async reportVm(status: Partial<VmStatus>): Promise<void> {
    const options = { subresource: "status" } as const;
    const patch = { type: "merge", fields: { status } } as const;
    await this.#admin.store.patch(VIRTUAL_MACHINES, this.key, patch, options);
  }

  async boot(): Promise<void> {
    await this.runPod();
    await this.vmiWhen(({ status }) => status?.phase === "Scheduled");
    await this.reportVmi({ phase: "Running" });
    await this.vmWhen(({ status }) => status?.ready === true);
  }

  async patchVm(operations: readonly JsonPatchOperation[]): Promise<void> {
    await this.#admin.store.patch(VIRTUAL_MACHINES, this.key, { type: "json", operations });
  }

  /** Removes the pod, like a kubelet that has ended it. */
  async removePod(): Promise<void> {
    const pod = await this.findPod();
    if (pod === undefined) return;
    const key = { namespace: "default", name: pod.metadata.name };
    await this.#admin.store.delete(PODS, key, { gracePeriodSeconds: 0 });
  }

  async deleteVmi(): Promise<void> {
    await this.#admin.store.delete(VIRTUAL_MACHINE_INSTANCES, this.key);
  }

  async end(): Promise<void> {
    await this.#admin.store.delete(VIRTUAL_MACHINES, this.key);
    await this.deleteVmi();
    await eventually(async () => {
      await this.removePod();
      return (await this.findVmi()) === undefined;
    }, SOON);
  }
}
