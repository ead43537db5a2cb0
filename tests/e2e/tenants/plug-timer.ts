// SPDX-License-Identifier: Apache-2.0
// Tenants that plug and unplug one NIC in turn, and measure each plug from its request to the interface in the VMI's
// status. There are several, because one tenant's changes have a low rate.
import { names, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { createCache, createKubeClient, loadKubeConfig } from "@patchbay/kube";
import type { KubeClient, StartableCache } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";

const NAMESPACE = "default";
const WAIT_MS = 60_000;

function isReady(vmi: VirtualMachineInstance | undefined, nic: string): boolean {
  const found = vmi?.status?.interfaces?.find(({ name }) => name === nic);
  return found?.hotplug?.phase === "Ready";
}

function isGone(vmi: VirtualMachineInstance | undefined, nic: string): boolean {
  const { spec, status } = vmi ?? {};
  const lists = [status?.interfaces, status?.attachments, spec?.networks];
  return !lists.some((list) => list?.some(({ name }) => name === nic) === true);
}

export class PlugTimer {
  readonly #clients: readonly KubeClient[];
  readonly #vmis: StartableCache<VirtualMachineInstance>;
  readonly #vm: string;
  readonly #stop = new AbortController();
  #rounds = 0;

  private constructor(first: KubeClient, others: readonly KubeClient[], vm: string) {
    this.#clients = [first, ...others];
    this.#vm = vm;
    const vmis = first.reflect(VIRTUAL_MACHINE_INSTANCES, { namespace: NAMESPACE });
    this.#vmis = createCache(vmis, { logger: createSilentLogger() });
    this.#vmis.start(this.#stop.signal);
  }

  /** @param kubeconfigs - of the tenants */
  static async open(kubeconfigs: readonly [string, ...string[]], vm: string): Promise<PlugTimer> {
    const deps = { logger: createSilentLogger(), clock: createClock() };
    const connect = async (kubeconfig: string): Promise<KubeClient> =>
      createKubeClient(await loadKubeConfig({ kubeconfig }), deps);
    const [first, ...others] = kubeconfigs;
    const timer = new PlugTimer(await connect(first), await Promise.all(others.map(connect)), vm);
    await timer.#vmis.synced();
    return timer;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  /** The next tenant plugs the NIC, and unplugs it again. Returns the milliseconds of both. */
  async round(nic: string, network: string): Promise<readonly [plug: number, unplug: number]> {
    this.#rounds += 1;
    const plugged = this.#time("addinterface", (vmi) => isReady(vmi, nic), {
      name: nic,
      networkAttachmentDefinitionName: network,
    });
    const plugMs = await plugged;
    const unplugMs = await this.#time("removeinterface", (vmi) => isGone(vmi, nic), { name: nic });
    return [plugMs, unplugMs];
  }

  async #time(
    subresource: string,
    isDone: (vmi: VirtualMachineInstance | undefined) => boolean,
    body: unknown,
  ): Promise<number> {
    const startMs = performance.now();
    const done = this.#until(isDone, `${subresource} ${JSON.stringify(body)}`);
    const path = `/apis/${names.SUBRESOURCES_GROUP}/v1/namespaces/${NAMESPACE}/virtualmachines/${this.#vm}/${subresource}`;
    const client = this.#clients[this.#rounds % this.#clients.length];
    await Promise.all([done, client?.requestRaw({ method: "PUT", path, body })]);
    return performance.now() - startMs;
  }

  async #until(
    isDone: (vmi: VirtualMachineInstance | undefined) => boolean,
    what: string,
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const stop = this.#vmis.onChange(() => {
      if (isDone(this.#vmis.find({ namespace: NAMESPACE, name: this.#vm }))) resolve(undefined);
    });
    const timer = setTimeout(() => {
      const found = this.#vmis.find({ namespace: NAMESPACE, name: this.#vm });
      reject(
        new Error(`not done in ${String(WAIT_MS)} ms: ${what}: ${JSON.stringify(found?.status)}`),
      );
    }, WAIT_MS);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      stop();
    }
  }
}
