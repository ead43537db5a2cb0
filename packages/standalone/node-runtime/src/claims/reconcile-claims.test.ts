// SPDX-License-Identifier: Apache-2.0
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES } from "@patchbay/api";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { AppError, KeyedMutex } from "@patchbay/base";

import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import {
  createFakeClaimDisk,
  createFakeClock,
  createFakeFiles,
  settle,
} from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { Crash, CrashInjector } from "../testing/mortality.ts";
import type { ClaimDeps } from "./deps.ts";
import { runClaimController, reconcileClaim, reconcileVolume } from "./reconcile-claims.ts";
import { aClaim, aClass, aVolume, HANDLE, withoutClaim } from "./testing.ts";

const FILE = `/claims/${HANDLE}/volume.img`;
const CLAIM = { namespace: "ns", name: "data" };
const VOLUME = { name: HANDLE };
const EFFECTS: readonly string[] = ["create", "patch", "delete", "make", "release", "remove"];
const PASSES_MAX = 30;

/** API server and disk outlive the process, which can die at any effect. */
class World {
  readonly store = createFakeStore();
  readonly disk = createFakeClaimDisk();
  readonly files = createFakeFiles();
  readonly log = createFakeLogger();
  readonly notes: Note[] = [];
  readonly claims = createFakeCache<PersistentVolumeClaim>();
  readonly volumes = createFakeCache<PersistentVolume>();
  readonly classes = createFakeCache<StorageClass>();
  readonly deps: ClaimDeps;
  readonly crashInjector = new CrashInjector(EFFECTS);

  constructor() {
    this.store.put(STORAGE_CLASSES, aClass());
    this.deps = {
      claims: this.claims,
      volumes: this.volumes,
      classes: this.classes,
      store: this.crashInjector.wrap(this.store),
      disk: this.crashInjector.wrap(this.disk),
      files: this.crashInjector.wrap(this.files),
      claimsDir: "/claims",
      nodeName: "node-1",
      clock: createFakeClock(),
      log: this.log,
      mutex: new KeyedMutex(),
      recorder: {
        record: (_, note) => void this.notes.push(note),
        flush: () => Promise.resolve(),
      },
    };
  }

  /** Passes until nothing is written any more. */
  async run(): Promise<void> {
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      await this.watch();
      const before = this.store.calls.filter((call) => !call.startsWith("get")).length;
      const died = [
        await this.#pass(() => reconcileClaim(this.deps, "ns/data")),
        await this.#pass(() => reconcileVolume(this.deps, HANDLE)),
      ].includes(true);
      const after = this.store.calls.filter((call) => !call.startsWith("get")).length;
      if (!died && before === after) return;
    }
    throw new Error("the loop does not come to rest");
  }

  /** Every watch tells what is there. */
  async watch(): Promise<void> {
    const [claim, volume] = [await this.claim(), await this.volume()];
    if (claim === undefined) this.claims.take(CLAIM);
    else this.claims.put(claim);
    if (volume === undefined) this.volumes.take(VOLUME);
    else this.volumes.put(volume);
    this.classes.put(aClass());
  }

  claim(): Promise<PersistentVolumeClaim | undefined> {
    return this.store.find(PERSISTENT_VOLUME_CLAIMS, CLAIM);
  }

  volume(): Promise<PersistentVolume | undefined> {
    return this.store.find(PERSISTENT_VOLUMES, VOLUME);
  }

  async #pass(pass: () => Promise<unknown>): Promise<boolean> {
    try {
      await pass();
    } catch (error) {
      if (error instanceof Crash) return true;
      if (!(error instanceof AppError)) throw error;
    }
    return false;
  }
}

async function expectBound(world: World): Promise<void> {
  const [claim, volume] = [await world.claim(), await world.volume()];
  expect(claim?.status).toMatchObject({ phase: "Bound", capacity: { storage: "1Gi" } });
  expect(claim?.spec.volumeName).toBe(HANDLE);
  expect(volume?.status?.phase).toBe("Bound");
  expect([...world.disk.files]).toEqual([[FILE, { kind: "files", sizeBytes: 2 ** 30 }]]);
}

async function bound(): Promise<World> {
  const world = new World();
  world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
  await world.run();
  world.crashInjector.crashAt(Infinity, "after");
  return world;
}

const DEATHS = Array.from({ length: 7 }, (_, index) => index + 1).flatMap((effect) =>
  (["before", "after"] as const).map((when) => ({ effect, when })),
);

describe("a claim", () => {
  test("is bound to its volume without further actions", async () => {
    const world = await bound();
    await expectBound(world);
    expect(world.notes).toEqual([]);
  });

  test.each(DEATHS)("is bound despite a crash $when effect $effect", async ({ effect, when }) => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    world.crashInjector.crashAt(effect, when);
    await world.run();
    await expectBound(world);
  });

  test("reports why its storage cannot be created, and gets no phase before", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    const full = { call: "make claim", path: FILE, reason: "no space left on device" };
    const disk = {
      ...world.disk,
      make: () => Promise.reject(new AppError("OS_FILE_FAILED", full)),
    };
    await reconcileClaim({ ...world.deps, disk }, "ns/data");
    await world.watch();
    const failing = { ...world.deps, disk };
    await reconcileClaim(failing, "ns/data");
    await world.watch();
    await expect(reconcileClaim(failing, "ns/data")).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
    });
    expect(world.notes.at(-1)).toMatchObject({ reason: "ProvisioningFailed", type: "Warning" });
    expect((await world.volume())?.status?.phase).toBeUndefined();
    await world.run();
    await expectBound(world);
  });
});

describe("storage of a volume", () => {
  async function withoutTheClaim(): Promise<World> {
    const world = await bound();
    await world.files.writeAtomic(FILE, "");
    await world.store.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    return world;
  }

  async function expectGone(world: World): Promise<void> {
    expect(await world.files.exists(`/claims/${HANDLE}`)).toBe(false);
    expect(await world.volume()).toBeUndefined();
  }

  test("is removed with its claim", async () => {
    const world = await withoutTheClaim();
    await world.run();
    await expectGone(world);
  });

  test.each(DEATHS)("is removed despite a crash $when effect $effect", async ({ effect, when }) => {
    const world = await withoutTheClaim();
    world.crashInjector.crashAt(effect, when);
    await world.run();
    await expectGone(world);
  });

  test("is retained while a pod uses it, with an event", async () => {
    const world = await withoutTheClaim();
    await world.files.writeAtomic(`/claims/${HANDLE}/users/pod-1`, "");
    await world.run();
    expect(await world.files.exists(FILE)).toBe(true);
    expect(world.notes.at(-1)).toMatchObject({ reason: "VolumeFailedDelete" });
    expect(world.notes.at(-1)?.message).toContain("pod-1");
  });

  test("is retained when a watch lags and the API server has the claim or another policy", async () => {
    const world = await bound();
    await world.files.writeAtomic(FILE, "");
    await world.watch();
    world.claims.take(CLAIM);
    await expect(reconcileVolume(world.deps, HANDLE)).rejects.toMatchObject({
      code: "RUNTIME_VOLUME_FAILED",
    });
    await world.store.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    const spec = { persistentVolumeReclaimPolicy: "Retain" };
    await world.store.patch(PERSISTENT_VOLUMES, VOLUME, { type: "merge", fields: { spec } });
    await expect(reconcileVolume(world.deps, HANDLE)).rejects.toMatchObject({
      code: "RUNTIME_VOLUME_FAILED",
    });
    expect(await world.files.exists(FILE)).toBe(true);
  });

  test("without a volume object is retained and logged", async () => {
    const world = new World();
    await world.files.ensureDirectory(`/claims/${HANDLE}`);
    const stop = new AbortController();
    const loop = runClaimController(world.deps, stop.signal);
    await settle();
    stop.abort();
    await loop;
    expect(await world.files.exists(`/claims/${HANDLE}`)).toBe(true);
    expect(world.log.lines).toMatchObject([
      { message: "storage without a volume object is not removed" },
    ]);
  });
});

test("rejects a name that is not a volume handle", async () => {
  const world = new World();
  const csi = { driver: "patchbay.io/local", volumeHandle: "../../etc" };
  world.store.put(PERSISTENT_VOLUMES, aVolume("Released", { csi }));
  await world.watch();
  await expect(reconcileVolume(world.deps, HANDLE)).rejects.toMatchObject({
    details: { reason: "../../etc is not the name of a volume of this machine" },
  });
});

describe("claims that request space concurrently", () => {
  /** A disk of 7 GiB. */
  function smallDisk(): World {
    const world = new World();
    world.files.readSpace = () =>
      Promise.resolve({ sizeBytes: 7 * 2 ** 30, freeBytes: 7 * 2 ** 30 });
    return world;
  }

  function large(index: number): PersistentVolumeClaim {
    const claim = aClaim({ resources: { requests: { storage: "5Gi" } } });
    const uid = `${String(index)}1111111-2222-3333-4444-555555555555`;
    return { ...claim, metadata: { ...claim.metadata, uid, name: `data-${String(index)}` } };
  }

  test("get no more than the available space, even before watches report the others", async () => {
    const world = smallDisk();
    const keys = [1, 2, 3].map((index) => {
      world.store.put(PERSISTENT_VOLUME_CLAIMS, large(index));
      world.claims.put(large(index));
      return `ns/data-${String(index)}`;
    });
    world.classes.put(aClass());
    const next = await Promise.all(keys.map((key) => reconcileClaim(world.deps, key)));
    expect(next.map(({ kind }) => kind)).toEqual(["done", "after", "after"]);
    expect((await world.store.list(PERSISTENT_VOLUMES)).items).toHaveLength(1);
    expect(world.notes.map(({ reason }) => reason)).toEqual(Array(2).fill("ProvisioningFailed"));
  });

  test("get space when another volume is deleted", async () => {
    const world = smallDisk();
    const first = aVolume("Bound", { capacity: { storage: "5Gi" } });
    world.store.put(PERSISTENT_VOLUMES, first);
    world.volumes.put(first);
    world.store.put(PERSISTENT_VOLUME_CLAIMS, large(2));
    world.claims.put(large(2));
    world.classes.put(aClass());
    world.claims.put(aClaim({ volumeName: HANDLE }, { status: { phase: "Bound" } }));
    const stop = new AbortController();
    const loop = runClaimController(world.deps, stop.signal);
    for (let turn = 0; turn < 6; turn += 1) await settle();
    expect(world.notes.map(({ reason }) => reason)).toContain("ProvisioningFailed");
    await world.store.delete(PERSISTENT_VOLUMES, VOLUME);
    world.volumes.take(VOLUME);
    for (let turn = 0; turn < 6; turn += 1) await settle();
    stop.abort();
    await loop;
    const made = (await world.store.list(PERSISTENT_VOLUMES)).items;
    expect(made.map(({ spec }) => spec.claimRef?.name)).toEqual(["data-2"]);
  });
});

test("changes of claims, volumes and classes trigger dependent objects", async () => {
  const world = new World();
  const stop = new AbortController();
  const loop = runClaimController(world.deps, stop.signal);
  world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
  for (let turn = 0; turn < 6; turn += 1) {
    await world.watch();
    await settle();
  }
  stop.abort();
  await loop;
  await expectBound(world);
});

describe("the error of a pass", () => {
  const notFound = new AppError("KUBE_NOT_FOUND", { resource: "volumes", object: HANDLE });
  const conflict = new AppError("KUBE_CONFLICT", { resource: "volumes", object: HANDLE });

  /** A world whose volume has lost its claim, and whose next patch fails. */
  async function failing(error: Error): Promise<World> {
    const world = new World();
    world.store.put(PERSISTENT_VOLUMES, aVolume("Bound"));
    await world.watch();
    world.store.patch = () => Promise.reject(error);
    return world;
  }

  test("is ignored when the volume is deleted meanwhile", async () => {
    const world = await failing(notFound);
    expect(await reconcileVolume(world.deps, HANDLE)).toMatchObject({ kind: "done" });
    expect(world.notes).toEqual([]);
  });

  test("is not recorded when the API server rejects a write for a volume", async () => {
    const world = await failing(conflict);
    await expect(reconcileVolume(world.deps, HANDLE)).rejects.toBe(conflict);
    expect(world.notes).toEqual([]);
  });

  test("is recorded when the operation on a volume fails", async () => {
    const world = await failing(new Error("disk is gone"));
    await expect(reconcileVolume(world.deps, HANDLE)).rejects.toThrow("disk is gone");
    expect(world.notes).toEqual([
      { type: "Warning", reason: "VolumeFailedDelete", message: "disk is gone" },
    ]);
  });

  /** A world whose claim is about to be bound, and whose disk or API server fails. */
  async function binding(fail: (world: World) => void, phase: "Pending" | "Bound") {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    world.store.put(PERSISTENT_VOLUMES, aVolume(phase));
    await world.watch();
    fail(world);
    return world;
  }

  test("is recorded when the storage of a claim cannot be created", async () => {
    const world = await binding((one) => {
      one.disk.make = () => Promise.reject(new Error("disk is gone"));
    }, "Pending");
    await expect(reconcileClaim(world.deps, "ns/data")).rejects.toThrow("disk is gone");
    expect(world.notes).toEqual([
      {
        type: "Warning",
        reason: "ProvisioningFailed",
        message: "its storage cannot be created: disk is gone",
      },
    ]);
  });

  test.each([
    { name: "the API server refuses a write", phase: "Pending", error: conflict },
    { name: "no storage can be created", phase: "Bound", error: new Error("away") },
  ] as const)("is not recorded for a claim when $name", async ({ phase, error }) => {
    const world = await binding((one) => {
      one.store.patch = () => Promise.reject(error);
    }, phase);
    await expect(reconcileClaim(world.deps, "ns/data")).rejects.toBe(error);
    expect(world.notes).toEqual([]);
  });
});

describe("one pass", () => {
  test("does nothing for deleted objects", async () => {
    const world = new World();
    expect(await reconcileClaim(world.deps, "ns/data")).toMatchObject({ kind: "done" });
    expect(await reconcileVolume(world.deps, HANDLE)).toMatchObject({ kind: "done" });
    expect(world.store.calls).toEqual([]);
  });

  test("is repeated in a minute for a claim without enough space", async () => {
    const world = new World();
    world.files.readSpace = () => Promise.resolve({ sizeBytes: 2 ** 20, freeBytes: 2 ** 20 });
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    await world.watch();
    expect(await reconcileClaim(world.deps, "ns/data")).toMatchObject({
      kind: "after",
      ms: 60_000,
    });
  });

  test("reports a claim without a class and waits for a change", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim({ storageClassName: "" }));
    world.classes.put(aClass({ metadata: { name: "" } }));
    await world.watch();
    expect(await reconcileClaim(world.deps, "ns/data")).toMatchObject({ kind: "done" });
    expect(world.notes).toMatchObject([{ reason: "FailedBinding" }]);
  });

  test("marks a volume without a claim reference as available", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUMES, withoutClaim(aVolume("Pending")));
    await world.watch();
    await reconcileVolume(world.deps, HANDLE);
    expect((await world.volume())?.status?.phase).toBe("Available");
  });

  test("reads the claim of a volume by namespace and name", async () => {
    const world = await bound();
    await world.watch();
    const before = world.store.calls.length;
    await reconcileVolume(world.deps, HANDLE);
    expect(world.store.calls).toHaveLength(before);
  });
});

describe("the loop", () => {
  async function turns(): Promise<void> {
    for (let turn = 0; turn < 6; turn += 1) await settle();
  }

  async function running(world: World, act: () => Promise<void> | void): Promise<void> {
    const stop = new AbortController();
    const loop = runClaimController(world.deps, stop.signal);
    await turns();
    await act();
    await turns();
    stop.abort();
    await loop;
  }

  test("starts with existing objects", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUMES, withoutClaim(aVolume("Pending")));
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim({ storageClassName: "other" }));
    await world.watch();
    await running(world, () => undefined);
    expect((await world.volume())?.status?.phase).toBe("Available");
    expect(world.notes.map(({ reason }) => reason)).toEqual(["VolumeMismatch"]);
  });

  test("removes a volume's storage when its claim is deleted", async () => {
    const world = await bound();
    await world.files.writeAtomic(FILE, "");
    await world.watch();
    await running(world, async () => {
      await world.store.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
      world.claims.take(CLAIM);
    });
    expect(await world.files.exists(FILE)).toBe(false);
  });

  test("binds a claim when its volume appears", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    world.claims.put(aClaim());
    await running(world, () => {
      world.store.put(PERSISTENT_VOLUMES, aVolume("Bound"));
      world.volumes.put(aVolume("Bound"));
    });
    expect((await world.claim())?.spec.volumeName).toBe(HANDLE);
  });

  test("creates a volume when the class of a claim appears", async () => {
    const world = new World();
    world.store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
    world.claims.put(aClaim());
    await running(world, () => {
      world.classes.put(aClass());
    });
    expect(await world.volume()).toBeDefined();
  });

  test("watches nothing after it ends", async () => {
    const world = new World();
    await running(world, () => undefined);
    const calls = world.store.calls.length;
    await world.watch();
    await turns();
    expect(world.store.calls.slice(calls).filter((call) => !call.startsWith("get"))).toEqual([]);
  });

  test("reports storage without a volume, and ignores other files next to it", async () => {
    const world = await bound();
    const lost = HANDLE.replace("1111", "9999");
    for (const name of [HANDLE, lost, "lost+found"]) {
      await world.files.ensureDirectory(`/claims/${name}`);
    }
    await world.watch();
    const before = world.log.lines.length;
    await running(world, () => undefined);
    expect(world.log.lines.slice(before)).toEqual([
      {
        level: "warn",
        message: "storage without a volume object is not removed",
        fields: { path: `/claims/${lost}` },
      },
    ]);
  });
});
