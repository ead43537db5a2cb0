// SPDX-License-Identifier: Apache-2.0
import { DATA_VOLUMES, PERSISTENT_VOLUME_CLAIMS, PODS, type DataVolume } from "@patchbay/api";
import type { PersistentVolumeClaim, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { Crash, CrashInjector } from "../testing/mortality.ts";
import {
  runDataVolumeController,
  reconcileDataVolume,
  type DataVolumeDeps,
} from "./reconcile-data-volumes.ts";

const KEY = { namespace: "blue", name: "root" };
const POD = { namespace: "blue", name: "fill-u1" };
const PHASE = "cdi.kubevirt.io/storage.pod.phase";
const PASSES_MAX = 20;

const DATA_VOLUME: DataVolume = {
  apiVersion: "cdi.kubevirt.io/v1beta1",
  kind: "DataVolume",
  metadata: { ...KEY, uid: "u1" },
  spec: {
    source: { registry: { url: "docker://debian12" } },
    storage: { resources: { requests: { storage: "1Gi" } } },
  },
};

/** The API server outlives the process, which can die at any effect. */
class World {
  readonly store = createFakeStore();
  readonly dataVolumes = createFakeCache<DataVolume>();
  readonly claims = createFakeCache<PersistentVolumeClaim>();
  readonly pods = createFakeCache<Pod>();
  readonly notes: Note[] = [];
  readonly crashInjector = new CrashInjector(["create", "patch", "delete"]);
  readonly deps: DataVolumeDeps;
  /** Pods that were created. */
  runs = 0;

  constructor() {
    this.store.put(DATA_VOLUMES, DATA_VOLUME);
    const { dataVolumes, claims, pods } = this;
    this.deps = {
      store: this.crashInjector.wrap(this.store),
      dataVolumes,
      claims,
      pods,
      clock: createFakeClock(),
      log: createFakeLogger(),
      recorder: {
        record: (_, note) => void this.notes.push(note),
        flush: () => Promise.resolve(),
      },
    };
  }

  /** Every watch reports what is stored. */
  async watch(): Promise<void> {
    const dataVolume = await this.store.find(DATA_VOLUMES, KEY);
    const claim = await this.store.find(PERSISTENT_VOLUME_CLAIMS, KEY);
    const pod = await this.store.find(PODS, POD);
    if (dataVolume !== undefined) this.dataVolumes.put(dataVolume);
    if (claim !== undefined) this.claims.put(claim);
    if (pod === undefined) this.pods.take(POD);
    else this.pods.put(pod);
  }

  /** A kubelet that runs each pod to its end. */
  async runPods(): Promise<void> {
    const pod = await this.store.find(PODS, POD);
    if (pod === undefined || pod.status?.phase === "Succeeded") return;
    this.runs += 1;
    this.store.put(PODS, { ...pod, status: { phase: "Succeeded" } });
  }

  async pass(): Promise<void> {
    await this.watch();
    try {
      await reconcileDataVolume(this.deps, "blue/root");
    } catch (error) {
      if (!(error instanceof Crash || error instanceof AppError)) throw error;
    }
  }

  /** Passes until the pod is gone again, and nothing more is done. */
  async run(): Promise<void> {
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      await this.pass();
      await this.runPods();
    }
  }

  async outcome() {
    const claim = await this.store.find(PERSISTENT_VOLUME_CLAIMS, KEY);
    const dataVolume = await this.store.find(DATA_VOLUMES, KEY);
    return {
      claim: claim?.metadata.annotations?.[PHASE],
      dataVolume: dataVolume?.status?.phase,
      pod: await this.store.find(PODS, POD),
      runs: this.runs,
    };
  }
}

const FILLED_ONCE = { claim: "Succeeded", dataVolume: "Succeeded", pod: undefined, runs: 1 };

test("fills a claim with one pod, and reports the result", async () => {
  const world = new World();
  await world.run();
  expect(await world.outcome()).toEqual(FILLED_ONCE);
  expect(world.notes.map(({ reason }) => reason)).toEqual(["FillSucceeded"]);
});

const DEATHS = Array.from({ length: 6 }, (_, index) => index + 1).flatMap((effect) =>
  (["before", "after"] as const).map((when) => ({ effect, when })),
);

test.each(DEATHS)("fills a claim once despite a crash $when effect $effect", async (death) => {
  const world = new World();
  world.crashInjector.crashAt(death.effect, death.when);
  await world.run();
  expect(await world.outcome()).toEqual(FILLED_ONCE);
});

test("does not report a claim as filled before the pod has succeeded", async () => {
  const world = new World();
  for (let pass = 0; pass < PASSES_MAX; pass += 1) await world.pass();
  const claim = await world.store.find(PERSISTENT_VOLUME_CLAIMS, KEY);
  expect(claim?.metadata.annotations?.[PHASE]).toBe("Pending");
});

test("changes of DataVolumes, claims and pods trigger the loop", async () => {
  const world = new World();
  const stop = new AbortController();
  const loop = runDataVolumeController(world.deps, stop.signal);
  for (let turn = 0; turn < PASSES_MAX; turn += 1) {
    await world.watch();
    await settle();
    await world.runPods();
  }
  stop.abort();
  await loop;
  expect(await world.outcome()).toEqual(FILLED_ONCE);
});
