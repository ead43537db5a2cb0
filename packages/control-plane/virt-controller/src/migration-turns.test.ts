// SPDX-License-Identifier: Apache-2.0
// Who goes first, what is left of migrations, and what becomes of one when its pods end.
import {
  KUBEVIRTS,
  MIGRATION_POLICIES,
  NAMESPACES,
  NODES,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { KEY } from "./testing/bench.ts";
import { aMigration, Migrating, UID } from "./testing/migrating.ts";

type Migration = VirtualMachineInstanceMigration;

function later(uid: string, minute: number, more: Partial<Migration> = {}): Migration {
  const creationTimestamp = `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z`;
  return { ...aMigration(uid, { creationTimestamp }), ...more };
}

/** One that is over, and kept. */
function over(uid: string, minute: number): Migration {
  const migration = later(uid, minute);
  const finalizers = ["kubevirt.io/migrationJobFinalize"];
  const labels = { "kubevirt.io/vmi-name": "vm1" };
  return {
    ...migration,
    metadata: { ...migration.metadata, finalizers, labels },
    status: { phase: "Failed" },
  };
}

async function configure(
  story: Migrating,
  migrations: { parallelMigrationsPerCluster?: number; maxDowntimeMs?: number },
): Promise<void> {
  await story.bench.put(KUBEVIRTS, {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt", namespace: "patchbay", uid: "kv" },
    spec: { configuration: { migrations } },
  });
}

describe("turns", () => {
  test("a second one of the VMI waits until the first is over", async () => {
    const story = await Migrating.begin(undefined, [aMigration(), later("m2", 1)]);
    expect([await story.phase(), await story.phase("m2")]).toEqual(["Scheduling", "Pending"]);
    expect(await story.findTarget("m2")).toBeUndefined();
  });

  test("one waits while others are as many as may move", async () => {
    const other = later("other", 0, { spec: { vmiName: "vm2" }, status: { phase: "Running" } });
    const story = new Migrating();
    await configure(story, { parallelMigrationsPerCluster: 1 });
    await story.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, other);
    await story.start([aMigration()]);
    expect(await story.phase()).toBe("Pending");
    await story.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      ...other,
      status: { phase: "Succeeded" },
    });
    await story.settle();
    expect(await story.phase()).toBe("Scheduling");
  });

  test("one that is deleted while it waits goes at once", async () => {
    const story = await Migrating.begin(undefined, [aMigration(), later("m2", 1)]);
    const waiting = await story.migration("m2");
    const finalizers = ["kubevirt.io/migrationJobFinalize"];
    const metadata = { ...aMigration("m2").metadata, ...waiting?.metadata, finalizers };
    await story.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      ...later("m2", 1),
      metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:02:00Z" },
    });
    await story.settle();
    expect((await story.migration("m2"))?.metadata.finalizers).toEqual([]);
    expect(await story.phase()).toBe("Scheduling");
  });

  test("where no other node can take the guest it fails before anything is made", async () => {
    const story = new Migrating();
    await story.bench.put(NODES, { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } });
    await story.start([aMigration()]);
    const { status } = (await story.migration()) ?? {};
    expect(status).toMatchObject({
      phase: "Failed",
      migrationState: { failureReason: expect.stringMatching(/^no node can take/) as string },
    });
    expect(await story.findTarget()).toBeUndefined();
    expect((await story.vmi()).status?.migrationState).toBeUndefined();
  });
});

describe("settings", () => {
  test("are the cluster's, and a policy's for whom it is", async () => {
    const story = new Migrating();
    await configure(story, { maxDowntimeMs: 500 });
    await story.bench.put(NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "default", labels: { stage: "production" } },
    });
    await story.bench.put(MIGRATION_POLICIES, {
      apiVersion: "migrations.kubevirt.io/v1alpha1",
      kind: "MigrationPolicy",
      metadata: { name: "careful" },
      spec: { selectors: { namespaceSelector: { stage: "production" } }, allowAutoConverge: true },
    });
    await story.start([aMigration()]);
    await story.runTarget();
    expect(await story.state()).toMatchObject({
      migrationPolicyName: "careful",
      migrationConfiguration: { maxDowntimeMs: 500, allowAutoConverge: true },
    });
  });
});

describe("what is left", () => {
  test("five that are over stay, the oldest go", async () => {
    const all = [1, 2, 3, 4, 5, 6, 7].map((minute) => over(`m${String(minute)}`, minute));
    const story = await Migrating.begin(undefined, all);
    const { items } = await story.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
    const left = items.map(({ metadata }) => metadata.uid);
    expect(new Set(left)).toEqual(new Set(["m3", "m4", "m5", "m6", "m7"]));
  });

  test("one that is cancelled goes when its target's pod is gone", async () => {
    const story = await Migrating.begin();
    await story.cancel();
    expect(await story.findTarget()).toBeUndefined();
    const { metadata, status } = (await story.migration()) ?? {};
    expect(status?.phase).toBe("Failed");
    expect(metadata?.finalizers).toEqual([]);
  });

  test("the quota's words, where it keeps the pod from being made", async () => {
    const story = new Migrating();
    story.bench.refuse("create pods", "KUBE_FORBIDDEN");
    await story.start([aMigration()]);
    expect(await story.phase()).toBe("Pending");
  });
});

describe("pods that end on the way", () => {
  test("the source's: the target is told, and its word counts", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.endPod(await story.findSource());
    expect(await story.state()).toMatchObject({
      sourceEndedTimestamp: expect.any(String) as string,
    });
    expect((await story.vmi()).status?.phase).toBe("Running");
    await story.arrive();
    expect(await story.phase()).toBe("Succeeded");
    expect((await story.vmi()).status).toMatchObject({ phase: "Running", nodeName: "node2" });
  });

  test("the source's, and nobody has the guest: the VM has failed", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.endPod(await story.findSource(), "Failed");
    story.bench.nowMs += 61_000;
    await story.settle();
    expect(await story.phase()).toBe("Failed");
    expect((await story.vmi()).status?.phase).toBe("Failed");
    expect(await story.findTarget()).toBeUndefined();
  });

  test("the migration's object is taken away by force: it is ended as if cancelled", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    const key = { ...KEY, name: `move-${UID}` };
    await story.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, key);
    await story.settle();
    expect(await story.state()).toMatchObject({ abortRequested: true });
    await story.writeState({ failed: true, failureReason: "it was cancelled" });
    expect(await story.state()).toMatchObject({ completed: true, failed: true });
    expect(await story.findTarget()).toBeUndefined();
    expect(await story.findSource()).toBeDefined();
  });

  test("it is taken away by force, and the target's pod ends: the source's word is waited for 5 min", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    const key = { ...KEY, name: `move-${UID}` };
    await story.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, key);
    await story.endPod(await story.target(), "Failed");
    story.bench.nowMs += 299_000;
    await story.settle();
    expect(await story.state()).not.toHaveProperty("completed");
    story.bench.nowMs += 2_000;
    await story.settle();
    expect(await story.state()).toMatchObject({ completed: true, failed: true });
    expect((await story.vmi()).status?.phase).toBe("Running");
  });

  test("the target's, when the guest had left the source: the VM has failed, whatever becomes of its pod", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.endPod(await story.target(), "Failed");
    await story.writeState({ sourceNodeDomainLeft: true });
    expect(await story.phase()).toBe("Failed");
    expect(await story.state()).toMatchObject({ completed: true, failed: true, guestLost: true });
    expect((await story.vmi()).status).toMatchObject({ phase: "Failed", reason: "GuestLost" });
    await story.endPod(await story.findSource(), "Succeeded");
    expect((await story.vmi()).status?.phase).toBe("Failed");
  });
});

describe("a guest that is held at its target", () => {
  const FAULTS = ["the NIC with MAC 02:00:00:00:00:01 has another tap: tap9"];

  async function held(): Promise<Migrating> {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.writeState({ targetNodeDomainDetected: true, targetNodeDomainFaults: FAULTS });
    return story;
  }

  async function isTold(story: Migrating): Promise<readonly boolean[]> {
    const objects = [await story.vmi(), await story.migration()];
    return objects.map(
      (object) => object?.status?.conditions?.some(({ type }) => type === "GuestHeld") === true,
    );
  }

  test("is told of, until it goes on", async () => {
    const story = await held();
    expect(await isTold(story)).toEqual([true, true]);
    await story.writeState({ targetNodeDomainFaults: [] });
    await story.arrive();
    expect(await isTold(story)).toEqual([false, false]);
    expect(await story.phase()).toBe("Succeeded");
  });

  test("is not ended by a cancel, which comes too late", async () => {
    const story = await held();
    await story.cancel();
    await story.writeState({ sourceNodeDomainLeft: true });
    expect(await story.phase()).toBe("Running");
    expect(await story.findTarget()).toBeDefined();
  });

  test("ends when its VM is stopped", async () => {
    const story = await held();
    await story.stop();
    await story.writeState({ sourceNodeDomainLeft: true });
    expect(await story.phase()).toBe("Failed");
    expect(await story.findTarget()).toBeUndefined();
    expect((await story.vmi()).status?.phase).toBe("Failed");
  });
});
