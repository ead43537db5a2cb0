// SPDX-License-Identifier: Apache-2.0
// A fake node for tests of the loop over pods. Its process may crash at any effect; API server, runtime and disk remain.
import { PODS } from "@patchbay/api";
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createStepBackoff, type Note } from "@patchbay/kube";
import type { ContainerRuntime, Store } from "@patchbay/core/interfaces";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import {
  createFakeClock,
  createFakeFiles,
  createFakeVolumeDisk,
  settle,
} from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { createImageAccess, createGrants, createRegistryPolicy } from "../images/access.ts";
import { NO_PULL_GUARD } from "../images/pull-guard.ts";
import { UID_INDEX, type PodDeps, type Volumes } from "../pods/deps.ts";
import type { ContainerHealth } from "../pods/facts.ts";
import { reconcilePod } from "../pods/reconcile-pod.ts";
import { createPodUidIndex } from "../pods/owners.ts";
import { createPulls } from "../pods/pulls.ts";
import { createStops } from "../pods/stops.ts";
import { UID_LABEL } from "../translate/labels.ts";
import { createAdmission } from "../schedule/admission.ts";
import { Crash, CrashInjector } from "./mortality.ts";
import { IMAGE, NODE, UID } from "./pods.ts";

/** Effects on the runtime and the API server at which the process can crash. */
const EFFECTS: readonly string[] = [
  "runSandbox",
  "stopSandbox",
  "removeSandbox",
  "createContainer",
  "startContainer",
  "removeContainer",
  "patch",
  "delete",
];
const PASSES_MAX = 40;

export class PodWorld {
  readonly clock = createFakeClock();
  readonly runtime = createFakeContainerRuntime(this.clock);
  readonly store = createFakeStore();
  readonly files = createFakeFiles();
  readonly disk = createFakeVolumeDisk();
  readonly log = createFakeLogger();
  readonly pods = createFakeCache<Pod>({ [UID_INDEX]: (pod) => [pod.metadata.uid ?? ""] });
  readonly notes: Note[] = [];
  readonly health = new Map<string, ContainerHealth>();
  readonly node: KubeNode = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: NODE.name },
    status: { allocatable: { cpu: "2", memory: "4Gi", pods: "110" } },
  };
  /** Error message of the next volume preparation. */
  findVolumeProblem: string | undefined;
  /** Number of interrupted starts that were reported to the sweeper. */
  interruptions = 0;
  readonly crashInjector = new CrashInjector(EFFECTS);
  #deps = this.#newProcess();

  constructor() {
    this.runtime.putImage(IMAGE);
  }

  get writes(): readonly string[] {
    return this.store.calls.filter((call) => !call.startsWith("get"));
  }

  get deps(): PodDeps {
    return this.#deps;
  }

  /** Creates or updates the pod at the API server. */
  async put(pod: Pod): Promise<void> {
    this.store.put(PODS, pod);
    await this.#watch();
  }

  async pod(): Promise<Pod | undefined> {
    return this.store.find(PODS, { namespace: "ns", name: "a" });
  }

  /** Deletes the pod with this grace period. */
  async requestDeletion(seconds: number): Promise<void> {
    const pod = await this.pod();
    if (pod === undefined) return;
    const deletionTimestamp = new Date(this.clock.now() + seconds * 1000).toISOString();
    await this.put({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } });
  }

  /** Reconciles until nothing changes. */
  async run(): Promise<void> {
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      const before = this.#state();
      const hasCrashed = await this.#pass();
      await settle();
      await this.#watch();
      if (!hasCrashed && before === this.#state()) return;
    }
    throw new Error(`the loop does not come to rest: ${this.#state()}`);
  }

  /** Lists sandboxes and containers with their states. */
  async remains(): Promise<readonly string[]> {
    const labels = { [UID_LABEL]: UID };
    const sandboxes = await this.runtime.listSandboxes({ labels });
    const containers = await this.runtime.listContainers({ labels });
    return [
      ...sandboxes.map(({ metadata, state }) => `sandbox ${String(metadata.attempt)} ${state}`),
      ...containers.map(({ name, attempt, state }) => `${name} ${String(attempt)} ${state}`),
    ];
  }

  /** Returns the id of the running container. */
  async running(name = "compute"): Promise<string> {
    const found = await this.runtime.listContainers({ labels: { [UID_LABEL]: UID } });
    const one = found.find((container) => container.name === name && container.state === "RUNNING");
    if (one === undefined) throw new Error(`no ${name} runs: ${(await this.remains()).join(", ")}`);
    return one.id;
  }

  /** Runs one pass. Returns whether the process crashed. */
  async #pass(): Promise<boolean> {
    try {
      await reconcilePod(UID, this.#deps);
    } catch (error) {
      if (error instanceof Crash) {
        this.#deps = this.#newProcess();
        return true;
      }
      if (!(error instanceof AppError)) throw error;
    }
    return false;
  }

  #state(): string {
    const { calls } = this.runtime;
    return JSON.stringify([calls.length, this.writes]);
  }

  /** Delivers the API server's state to the cache. */
  async #watch(): Promise<void> {
    const pod = await this.pod();
    if (pod === undefined) this.pods.take({ namespace: "ns", name: "a" });
    else this.pods.put(pod);
  }

  #newProcess(): PodDeps {
    const { clock, disk, files, log, pods } = this;
    const runtime: ContainerRuntime = this.crashInjector.wrap(this.runtime);
    const store: Store = this.crashInjector.wrap(this.store);
    const wake = (): void => undefined;
    const grants = createGrants({ files, log, directory: "/images" });
    return {
      store,
      statusStore: store,
      pods,
      runtime,
      files,
      disk,
      clock,
      log,
      node: NODE,
      runtimeName: "fake",
      recorder: {
        record: (_, note) => void this.notes.push(note),
        flush: () => Promise.resolve(),
      },
      admission: createAdmission({ pods, findNode: () => this.node }),
      volumes: this.#volumes(),
      probes: { retain: () => undefined, findHealth: () => this.health },
      stepBackoff: createStepBackoff({ clock, random: () => 0 }),
      owners: createPodUidIndex(runtime),
      pulls: createPulls({
        runtime,
        clock,
        log,
        wake,
        access: createImageAccess({ grants }),
        guard: NO_PULL_GUARD,
        registries: createRegistryPolicy({
          readKubeVirt: () => Promise.resolve(undefined),
          resolve: () => Promise.resolve([]),
        }),
      }),
      stops: createStops({ runtime: this.runtime, clock, log, wake }),
      sweeper: {
        sweep: () => Promise.resolve(),
        sweepAfterInterruption: () => void (this.interruptions += 1),
      },
      releasedSandboxIds: new Set(),
      observeNetworks: (makeSandbox) => makeSandbox(),
    };
  }

  #volumes(): Volumes {
    return {
      prepare: async (pod) => {
        const { findVolumeProblem: reason } = this;
        if (reason !== undefined) throw new AppError("RUNTIME_POD_FAILED", { pod: "a", reason });
        await this.files.ensureDirectory(`/p/${UID}`);
        return new Map((pod.spec.volumes ?? []).map(({ name }) => [name, `/p/${UID}/${name}`]));
      },
      remove: (uid) => this.files.remove(`/p/${uid}`),
    };
  }
}
