// SPDX-License-Identifier: Apache-2.0
// A node that only writes its agents' reports: pods run with their requested NICs, and guests attach and release
// devices immediately. One write per report.
import {
  names,
  NODES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type Attachment,
  type Iface,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import { findController, type Pod } from "@patchbay/api/kubernetes";
import {
  createCache,
  createQueue,
  done,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  type KubeClient,
  type Next,
  type StartableCache,
} from "@patchbay/kube";
import type { Clock, Logger } from "@patchbay/base";
import { NAMESPACE, NODE } from "./install.ts";

/** Concurrent keys of one kind. */
const CONCURRENCY = 16;
/** Source: kubelet, nodeStatusUpdateFrequency. */
const BEAT_MS = 10_000;
const POD_IP = "10.88.0.2";

/** The node's parts; `client` is its agents'. */
export interface NodeSideDeps {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Name of the VMI of a launcher pod. */
export function vmOf(pod: Pod): string {
  return findController(pod)?.name ?? "";
}

/** The CNI status of a pod's requested NICs. */
function networkStatusOf(pod: Pod): string {
  const parsed = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  const elements = parsed.ok ? parsed.elements : [];
  const podNic = { name: "default", interface: "eth0", ips: [POD_IP], default: true, dns: {} };
  return JSON.stringify([
    podNic,
    ...elements.map((element) => ({
      name: `${element.namespace ?? NAMESPACE}/${element.name}`,
      interface: element.interface,
      mac: element.mac,
      ips: [],
      dns: {},
    })),
  ]);
}

function hotplugOf(type: "Plug" | "Unplug"): NonNullable<IfaceStatus["hotplug"]> {
  const phase = type === "Plug" ? "Ready" : "PodDetaching";
  return { type, phase, since: "2026-01-01T00:00:00Z" };
}

/** An iface as virt-handler reports it when the node is done with it. */
function statusOf(iface: Iface, attachment: Attachment | undefined): readonly IfaceStatus[] {
  if (attachment?.state !== "Attached" && attachment?.state !== "Removing") return [];
  const { name, macAddress } = iface;
  const { podInterfaceName } = attachment;
  const nic = { name, podInterfaceName };
  if (iface.state === "absent" || attachment.state === "Removing") {
    return [{ ...nic, infoSource: "", hotplug: hotplugOf("Unplug") }];
  }
  const device = {
    ...(macAddress !== undefined && { mac: macAddress }),
    queueCount: 1,
    linkState: "up" as const,
    pciAddress: "0000:02:00.0",
    interfaceName: `eth-${name}`,
    ipAddress: "10.88.0.3",
    ipAddresses: ["10.88.0.3", "fe80::1"],
  };
  const infoSource = "domain, guest-agent, multus-status";
  return [{ ...nic, infoSource, ...device, hotplug: hotplugOf("Plug") }];
}

function interfacesOf({ spec, status }: VirtualMachineInstance): readonly IfaceStatus[] {
  const attachments = new Map(status?.attachments?.map((one) => [one.name, one]));
  const ifaces = spec.domain.devices?.interfaces ?? [];
  return ifaces.flatMap((iface) => statusOf(iface, attachments.get(iface.name)));
}

function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/** The node, active until its signal is aborted. */
export class NodeSide {
  readonly pods: StartableCache<Pod>;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly #deps: NodeSideDeps;

  constructor(deps: NodeSideDeps) {
    const { client, log: logger } = deps;
    const selection = { namespace: NAMESPACE };
    this.#deps = deps;
    this.pods = createCache(client.reflect(PODS, selection), { logger });
    this.vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, selection), { logger });
  }

  /** Resolves when the node has its initial lists and is active. */
  async start(signal: AbortSignal): Promise<void> {
    const { pods, vmis } = this;
    const { clock, log } = this.#deps;
    const podQueue = createQueue({ clock, concurrency: CONCURRENCY });
    const vmiQueue = createQueue({ clock, concurrency: CONCURRENCY });
    for (const [cache, queue] of [
      [pods, podQueue],
      [vmis, vmiQueue],
    ] as const) {
      cache.onChange((change) => {
        if (change.kind !== "deleted") queue.add(printKey(keyOf(change.current)));
      });
      cache.start(signal);
      await cache.synced();
    }
    const tendPod = (key: string): Promise<Next> => this.#tendPod(pods.find(parseKey(key)));
    const tendVmi = (key: string): Promise<Next> => this.#tendVmi(vmis.find(parseKey(key)));
    const shared = { log, clock };
    await this.#beat();
    void this.#keepBeating(signal);
    void runReconciler({ name: "pods", queue: podQueue, reconcile: tendPod, ...shared }, signal);
    void runReconciler({ name: "vmis", queue: vmiQueue, reconcile: tendVmi, ...shared }, signal);
  }

  /** Sends heartbeats: a node without them for 40 s is reported lost, with all its VMs. */
  async #beat(): Promise<void> {
    const { client, clock } = this.#deps;
    const lastHeartbeatTime = new Date(clock.now()).toISOString();
    const conditions = [{ type: "Ready", status: "True", lastHeartbeatTime }];
    const patch = { type: "merge", fields: { status: { conditions } } } as const;
    await client.store.patch(NODES, { name: NODE }, patch, { subresource: "status" });
  }

  async #keepBeating(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      try {
        await clock.sleep(BEAT_MS, signal);
        await this.#beat();
      } catch (err) {
        // The next one may succeed.
        if (!isOver()) log.warn("a heartbeat was lost", { err });
      }
    }
  }

  async #tendPod(pod: Pod | undefined): Promise<Next> {
    if (pod === undefined) return done();
    const { name, annotations = {}, deletionTimestamp } = pod.metadata;
    const key = { namespace: NAMESPACE, name };
    const { store } = this.#deps.client;
    if (deletionTimestamp !== undefined) {
      await store.delete(PODS, key, { gracePeriodSeconds: 0 });
    } else if (pod.spec.nodeName === undefined) {
      await this.#bind(name);
    } else {
      const reported = networkStatusOf(pod);
      const isRunning = pod.status?.phase === "Running";
      if (isRunning && annotations[names.NETWORK_STATUS_ANNOTATION] === reported) return done();
      const status = { phase: "Running", podIP: POD_IP, podIPs: [{ ip: POD_IP }] };
      const fields = {
        metadata: { annotations: { [names.NETWORK_STATUS_ANNOTATION]: reported } },
        ...(isRunning ? {} : { status }),
      };
      await store.patch(PODS, key, { type: "merge", fields }, { subresource: "status" });
    }
    return done();
  }

  async #bind(name: string): Promise<void> {
    const target = { apiVersion: "v1", kind: "Node", name: NODE };
    await this.#deps.client.requestRaw({
      method: "POST",
      path: `/api/v1/namespaces/${NAMESPACE}/pods/${name}/binding`,
      body: { apiVersion: "v1", kind: "Binding", metadata: { name }, target },
    });
  }

  async #tendVmi(vmi: VirtualMachineInstance | undefined): Promise<Next> {
    const phase = vmi?.status?.phase;
    if (vmi === undefined || (phase !== "Scheduled" && phase !== "Running")) return done();
    const interfaces = interfacesOf(vmi);
    if (phase === "Running" && isSame(interfaces, vmi.status?.interfaces)) return done();
    const status = { interfaces, phase: "Running", pciePorts: { total: 32, free: 30 } };
    const key = { namespace: NAMESPACE, name: vmi.metadata.name };
    const patch = { type: "merge", fields: { status } } as const;
    const options = { subresource: "status" } as const;
    await this.#deps.client.store.patch(VIRTUAL_MACHINE_INSTANCES, key, patch, options);
    return done();
  }
}
