// SPDX-License-Identifier: Apache-2.0
// Plugs and unplugs by one write and one watch, without a process per request.
import { join } from "node:path";
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import {
  createCache,
  createKubeClient,
  loadKubeConfig,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "./eventually.ts";
import type { Machine } from "./machine/machine.ts";
import { ifaceManifest, networkManifest, type ManifestNic } from "./manifests.ts";

const TEMPLATE = "/spec/template/spec";
/** Time for one of many concurrent plugs under software emulation on a busy machine. */
const CHANGE_MS = 120_000;

function operationsOf(nic: ManifestNic): readonly JsonPatchOperation[] {
  return [
    { op: "add", path: `${TEMPLATE}/networks/-`, value: networkManifest(nic) },
    { op: "add", path: `${TEMPLATE}/domain/devices/interfaces/-`, value: ifaceManifest(nic) },
  ];
}

/** Plugs and unplugs, and watches for completion. */
export class Plugger {
  readonly #client: KubeClient;
  readonly #vmis: StartableCache<VirtualMachineInstance>;
  readonly #stop = new AbortController();

  private constructor(client: KubeClient) {
    this.#client = client;
    const logger = createSilentLogger();
    this.#vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES), { logger });
    this.#vmis.start(this.#stop.signal);
  }

  static async open(machine: Pick<Machine, "dataDir">): Promise<Plugger> {
    const config = await loadKubeConfig({ kubeconfig: join(machine.dataDir, "kubeconfig") });
    const deps = { logger: createSilentLogger(), clock: createClock() };
    const plugger = new Plugger(createKubeClient(config, deps));
    await plugger.#vmis.synced();
    return plugger;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#client.close();
  }

  /** Plugs the NICs into the VM by one write; resolves when they are in the guest. */
  async plug(vm: string, nics: readonly ManifestNic[]): Promise<void> {
    await this.#patch(
      vm,
      nics.flatMap((nic) => operationsOf(nic)),
    );
    await this.#until(vm, (names) => nics.every(({ name }) => names.ready.includes(name)));
  }

  async unplug(vm: string, nics: readonly { name: string }[]): Promise<void> {
    const found = await this.#client.store.find(VIRTUAL_MACHINES, {
      namespace: "default",
      name: vm,
    });
    const { networks = [], domain } = found?.spec.template.spec ?? {};
    const gone = new Set(nics.map(({ name }) => name));
    const keep = <T extends { readonly name: string }>(list: readonly T[] = []): readonly T[] =>
      list.filter(({ name }) => !gone.has(name));
    const interfaces = keep(domain?.devices?.interfaces);
    await this.#patch(vm, [
      { op: "replace", path: `${TEMPLATE}/networks`, value: keep(networks) },
      { op: "replace", path: `${TEMPLATE}/domain/devices/interfaces`, value: interfaces },
    ]);
    await this.#until(vm, (names) => !names.all.some((name) => gone.has(name)));
  }

  async #patch(vm: string, operations: readonly JsonPatchOperation[]): Promise<void> {
    const key = { namespace: "default", name: vm };
    await this.#client.store.patch(VIRTUAL_MACHINES, key, { type: "json", operations });
  }

  async #until(
    vm: string,
    isSo: (names: {
      readonly ready: readonly string[];
      readonly all: readonly string[];
    }) => boolean,
  ): Promise<void> {
    const look = (): boolean => {
      const vmi = this.#vmis.find({ namespace: "default", name: vm });
      const interfaces = vmi?.status?.interfaces ?? [];
      const ready = interfaces.filter(({ hotplug }) => hotplug?.phase === "Ready");
      const lists = [interfaces, vmi?.status?.attachments ?? [], vmi?.spec.networks ?? []];
      const all = lists.flatMap((list) => list.flatMap(({ name }) => name ?? []));
      return isSo({ ready: ready.flatMap(({ name }) => name ?? []), all });
    };
    await eventually(look, { withinMs: CHANGE_MS });
  }
}
