// SPDX-License-Identifier: Apache-2.0
// Scheduler, kubelets and container runtimes of all nodes: pods get a node, a sandbox and a launcher, and end.
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";
import { Pending } from "../life.ts";
import type { TestNode } from "./node.ts";

/** Milliseconds until a pod's containers have ended and its sandbox is deleted. */
const END_MS = 1_000;

export class Kubelet {
  readonly #client: KubeClient;
  readonly #nodes: readonly TestNode[];
  /** Existing pods by uid. */
  readonly #places = new Map<string, TestNode>();
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #known = new Set<string>();
  readonly #ending = new Set<string>();
  readonly #pending = new Pending();

  constructor(
    client: KubeClient,
    nodes: readonly TestNode[],
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#client = client;
    this.#nodes = nodes;
    this.#sleep = sleep;
  }

  /** The current work on the node. */
  get pending(): Pending {
    return this.#pending;
  }

  start(): void {
    this.#client.reflect(PODS).subscribe((reported) => {
      if (reported.kind === "applied") void this.#take(reported.object);
    });
  }

  async #take(pod: Pod): Promise<void> {
    const { uid = "", deletionTimestamp } = pod.metadata;
    if (deletionTimestamp !== undefined) {
      if (this.#ending.has(uid)) return;
      this.#ending.add(uid);
      await this.#end(pod);
    } else if (!this.#known.has(uid)) {
      this.#known.add(uid);
      await this.#run(pod);
    }
  }

  /** Launchers of one guest have anti-affinity: the first node without one. */
  #place(uid: string): TestNode {
    const claimed = [...this.#places.values()];
    const node = this.#nodes.find((each) => !claimed.includes(each)) ?? this.#nodes[0];
    if (node === undefined) throw new Error("there is no node");
    this.#places.set(uid, node);
    return node;
  }

  async #run({ metadata }: Pod): Promise<void> {
    const { namespace = "", name, uid = "" } = metadata;
    const key = { namespace, name };
    const node = this.#place(uid);
    await this.#busy(() => node.start({ uid, namespace, name }));
    const fields = {
      spec: { nodeName: node.name },
      status: { phase: "Running", podIP: "10.88.0.2", podIPs: [{ ip: "10.88.0.2" }] },
    };
    await this.#client.store.patch(PODS, key, { type: "merge", fields });
  }

  async #end({ metadata }: Pod): Promise<void> {
    const { namespace = "", name, uid = "" } = metadata;
    const key = { namespace, name };
    const node = this.#places.get(uid);
    await this.#busy(() => node?.end(uid));
    const over = { name: "compute", state: { terminated: { exitCode: 0 } } };
    const fields = { status: { phase: "Succeeded", containerStatuses: [over] } };
    await this.#client.store.patch(PODS, key, { type: "merge", fields });
    await this.#sleep(END_MS);
    await this.#busy(() => node?.remove(uid));
    this.#places.delete(uid);
    await this.#client.store.delete(PODS, key, { gracePeriodSeconds: 0 });
  }

  async #busy(work: () => Promise<void> | undefined): Promise<void> {
    this.#pending.add();
    await work();
    this.#pending.take();
  }
}
