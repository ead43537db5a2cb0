// SPDX-License-Identifier: Apache-2.0
// Scheduler, kubelet and container runtime of the one node: pods get a sandbox and a launcher, and end.
import { PODS, type Pod } from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import { Pending } from "../life.ts";
import { NODE, type PodHands } from "./node.ts";

/** Milliseconds that the containers of a pod take to end, and its sandbox to go. */
const END_MS = 1_000;

/** Does with pods as they ask. */
export class Kubelet {
  readonly #client: KubeClient;
  readonly #hands: PodHands;
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #known = new Set<string>();
  readonly #ending = new Set<string>();
  readonly #pending = new Pending();

  constructor(client: KubeClient, hands: PodHands, sleep: (ms: number) => Promise<void>) {
    this.#client = client;
    this.#hands = hands;
    this.#sleep = sleep;
  }

  /** What it does on the node at this moment. */
  get pending(): Pending {
    return this.#pending;
  }

  start(): void {
    this.#client.reflect(PODS).subscribe((told) => {
      if (told.kind === "applied") void this.#take(told.object);
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

  async #run({ metadata }: Pod): Promise<void> {
    const { namespace = "", name, uid = "" } = metadata;
    const key = { namespace, name };
    await this.#busy(() => this.#hands.start({ uid, namespace, name }));
    const fields = {
      spec: { nodeName: NODE },
      status: { phase: "Running", podIP: "10.88.0.2", podIPs: [{ ip: "10.88.0.2" }] },
    };
    await this.#client.store.patch(PODS, key, { type: "merge", fields });
  }

  async #end({ metadata }: Pod): Promise<void> {
    const { namespace = "", name, uid = "" } = metadata;
    const key = { namespace, name };
    await this.#busy(() => this.#hands.end(uid));
    const over = { name: "compute", state: { terminated: { exitCode: 0 } } };
    const fields = { status: { phase: "Succeeded", containerStatuses: [over] } };
    await this.#client.store.patch(PODS, key, { type: "merge", fields });
    await this.#sleep(END_MS);
    await this.#busy(() => this.#hands.remove(uid));
    await this.#client.store.delete(PODS, key, { gracePeriodSeconds: 0 });
  }

  async #busy(work: () => Promise<void>): Promise<void> {
    this.#pending.add();
    await work();
    this.#pending.take();
  }
}
