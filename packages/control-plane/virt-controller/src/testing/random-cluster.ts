// SPDX-License-Identifier: Apache-2.0
// Runs the loops with all actors, which may be late or fail: a server with finalizers, a scheduler, a kubelet, a net-agent and a
// virt-handler.
import {
  isAbsent,
  names,
  NODES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IfaceStatus,
  type ResourceType,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import { launcherPodName } from "@patchbay/core/migration";
import { ifacesOf, networksOf } from "@patchbay/core/nics";
import { Bench, KEY } from "./bench.ts";

const NOW = "2026-01-01T00:00:00Z";
/** Time longer than any backoff, in milliseconds. */
const LONG_MS = 400_000;
/** Number of rounds without new faults after which all actors must have settled. */
const ROUNDS_MAX = 60;

/** Makes the store delete like a server, which respects finalizers. Returns a function that deletes at once. */
export function emulateFinalizers({ server }: Bench): Bench["server"]["delete"] {
  const [patch, remove] = [server.patch.bind(server), server.delete.bind(server)];
  server.delete = async (type, key, options) => {
    const current = await server.find(type, key);
    const hasFinalizer = type.kind === PODS.kind || (current?.metadata.finalizers ?? []).length > 0;
    if (current === undefined || !hasFinalizer) return remove(type, key, options);
    if (options?.uid !== undefined && options.uid !== current.metadata.uid) {
      return remove(type, key, options);
    }
    server.put(type, { ...current, metadata: { ...current.metadata, deletionTimestamp: NOW } });
  };
  server.patch = async (type, key, change, options) => {
    const next = await patch(type, key, change, options);
    const { deletionTimestamp, finalizers = [] } = next.metadata;
    const isGone = deletionTimestamp !== undefined && finalizers.length === 0;
    if (isGone && type.kind !== PODS.kind && options?.dryRun !== true) await remove(type, key);
    return next;
  };
  return remove;
}

export class AnyWorld {
  readonly bench = new Bench();
  readonly #remove = emulateFinalizers(this.bench);

  /** Changes the VM, like a user; the caches may lag. */
  async edit(
    change: (vm: VirtualMachine) => VirtualMachine["spec"],
    isSeen: boolean,
  ): Promise<void> {
    const vm = await this.bench.vm();
    if (vm === undefined) return;
    const metadata = { ...vm.metadata, generation: (vm.metadata.generation ?? 0) + 1 };
    const next = { ...vm, metadata, spec: change(vm) };
    await this.bench.put(VIRTUAL_MACHINES, next, isSeen ? "known" : "meanwhile");
  }

  /** Writes a request to the VM's status, like virt-api. */
  async request(statusHistory: readonly StateChangeRequest["action"][]): Promise<void> {
    const [vm, vmi] = [await this.bench.vm(), await this.bench.vmi()];
    if (vm === undefined) return;
    const uid = vmi?.metadata.uid;
    const stateChangeRequests = statusHistory.flatMap((action): StateChangeRequest[] => {
      if (action === "Start") return [{ action }];
      return uid === undefined ? [] : [{ action, uid }];
    });
    this.bench.server.put(VIRTUAL_MACHINES, {
      ...vm,
      status: { ...vm.status, stateChangeRequests },
    });
  }

  async endGuest(phase: "Succeeded" | "Failed"): Promise<void> {
    const vmi = await this.bench.vmi();
    if (vmi?.status?.phase !== "Running") return;
    this.#put(VIRTUAL_MACHINE_INSTANCES, vmi, { ...vmi, status: { ...vmi.status, phase } });
    await this.endPod({ phase });
  }

  /** Ends the pod, independent of the guest. */
  async endPod(status: NonNullable<Pod["status"]>): Promise<void> {
    const pod = await this.#pod();
    if (pod !== undefined) this.#put(PODS, pod, { ...pod, status: { ...pod.status, ...status } });
  }

  async setNodeReady(isReady: boolean): Promise<void> {
    const ready = { type: "Ready", status: isReady ? "True" : "Unknown" } as const;
    const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } };
    await this.bench.put(NODES, { ...node, status: { conditions: [ready] } });
  }

  /** Returns the VM's printable status after each pass, until nothing changes any more without a change of the time. */
  async statusHistory(): Promise<readonly string[]> {
    const statusHistory: string[] = [];
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await this.bench.catchUp();
      await this.passOnce();
      const { printableStatus = "" } = (await this.bench.vm())?.status ?? {};
      if (statusHistory.at(-1) !== printableStatus) statusHistory.push(printableStatus);
      const wrote = this.bench.calls.some((call) => !call.startsWith("get"));
      if (!(await this.actNode()) && !wrote) return statusHistory;
    }
    throw new Error(`it is not at rest: ${statusHistory.join(", ")}`);
  }

  async delete(type: ResourceType<KubeObject>): Promise<void> {
    const pod = await this.#pod();
    const key = type.kind === PODS.kind ? pod?.metadata : KEY;
    if (key !== undefined) await this.bench.server.delete(type, key);
  }

  async passOnce(): Promise<void> {
    await this.bench.pass().catch(() => undefined);
  }

  /** Acts as node and scheduler. Returns whether anything changed. */
  async actNode(): Promise<boolean> {
    const pod = await this.#actPod();
    const vmi = await this.#actGuest();
    return pod || vmi;
  }

  /** Runs until no actor finds work, even after some time. */
  async settle(): Promise<void> {
    let quiet = 0;
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await this.bench.catchUp();
      // A pass that lost a race is repeated, like by the queue.
      const hasFailed = await this.bench.pass().then(
        () => false,
        () => true,
      );
      const wrote = hasFailed || this.bench.calls.some((call) => !call.startsWith("get"));
      quiet = (await this.actNode()) || wrote ? 0 : quiet + 1;
      if (quiet > 1) return;
      if (!wrote) this.bench.nowMs += LONG_MS;
    }
    throw new Error(`it is not at rest: ${this.bench.calls.join(", ")}`);
  }

  async #pod(): Promise<Pod | undefined> {
    const vmi = await this.bench.vmi();
    if (vmi === undefined) return undefined;
    return this.bench.server.find(PODS, { ...KEY, name: launcherPodName(vmi) });
  }

  #put<T extends KubeObject>(type: ResourceType<T>, before: T, after: T): boolean {
    if (isEqual(before, after)) return false;
    this.bench.server.put(type, after);
    return true;
  }

  async #actPod(): Promise<boolean> {
    const pod = await this.#pod();
    if (pod === undefined) return false;
    const { metadata, spec, status } = pod;
    if (metadata.deletionTimestamp !== undefined) {
      await this.#remove(PODS, metadata);
      return true;
    }
    const requested = parseNetworks(metadata.annotations?.[names.NETWORKS_ANNOTATION]);
    const networkStatus = (requested.ok ? requested.elements : []).map((element) => ({
      name: `${element.namespace ?? ""}/${element.name}`,
      interface: element.interface,
      mac: element.mac,
    }));
    const annotations = {
      ...metadata.annotations,
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(networkStatus),
    };
    return this.#put(PODS, pod, {
      ...pod,
      metadata: { ...metadata, annotations },
      spec: { ...spec, nodeName: "node1" },
      status: { ...status, phase: status?.phase ?? "Running" },
    });
  }

  async #actGuest(): Promise<boolean> {
    const vmi = await this.bench.vmi();
    const phase = vmi?.status?.phase;
    if (vmi === undefined || (phase !== "Scheduled" && phase !== "Running")) return false;
    const interfaces = devicesOf(vmi);
    const status = { ...vmi.status, phase: "Running" as const, interfaces };
    return this.#put(VIRTUAL_MACHINE_INSTANCES, vmi, { ...vmi, status });
  }
}

/** Builds the interface statuses of a virt-handler. Each NIC is on its network as soon as the pod's NIC is. */
function devicesOf({ spec, status }: VirtualMachineInstance): IfaceStatus[] {
  return ifacesOf(spec).flatMap((iface): IfaceStatus[] => {
    const { name } = iface;
    const before = status?.interfaces?.find((each) => each.name === name);
    const wanted = networksOf(spec).find((each) => each.name === name)?.multus?.networkName;
    const attached = (status?.attachments ?? []).filter(
      (each) => each.name === name && each.state === "Attached",
    );
    const found = attached.find(({ networkName }) => networkName === `default/${wanted ?? ""}`);
    const previous = attached.find((each) => each.podInterfaceName === before?.podInterfaceName);
    const nic = found ?? previous;
    if (isAbsent(iface) || nic === undefined) return [];
    const { podInterfaceName } = nic;
    return [{ name, podInterfaceName, hotplug: { type: "Plug", phase: "Ready" } }];
  });
}
