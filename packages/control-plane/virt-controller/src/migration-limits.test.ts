// SPDX-License-Identifier: Apache-2.0
// Limits of parallel migrations, cleanup of finished ones, and pods that end during a migration.
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

/** A finished migration that is retained. */
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

describe("limits", () => {
  test("a second migration of a VMI waits until the first has ended", async () => {
    const story = await Migrating.begin(undefined, [aMigration(), later("m2", 1)]);
    expect([await story.phase(), await story.phase("m2")]).toEqual(["Scheduling", "Pending"]);
    expect(await story.findTarget("m2")).toBeUndefined();
  });

  test("a migration waits while the limit of parallel migrations is reached", async () => {
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

  test("a waiting migration is deleted at once", async () => {
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

  test("a migration without a suitable node fails before it creates a pod", async () => {
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
  test("come from the cluster, and from a policy that selects the guest", async () => {
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

describe("cleanup", () => {
  test("the five newest finished migrations stay, and older ones are deleted", async () => {
    const all = [1, 2, 3, 4, 5, 6, 7].map((minute) => over(`m${String(minute)}`, minute));
    const story = await Migrating.begin(undefined, all);
    const { items } = await story.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
    const left = items.map(({ metadata }) => metadata.uid);
    expect(new Set(left)).toEqual(new Set(["m3", "m4", "m5", "m6", "m7"]));
  });

  test("a canceled migration is deleted after its target pod", async () => {
    const story = await Migrating.begin();
    await story.cancel();
    expect(await story.findTarget()).toBeUndefined();
    const { metadata, status } = (await story.migration()) ?? {};
    expect(status?.phase).toBe("Failed");
    expect(metadata?.finalizers).toEqual([]);
  });

  test("a migration reports the quota that blocks its pod", async () => {
    const story = new Migrating();
    story.bench.refuse("create pods", "KUBE_FORBIDDEN");
    await story.start([aMigration()]);
    expect(await story.phase()).toBe("Pending");
  });
});

describe("pods that end during a migration", () => {
  test("the source pod ends: the target's report decides", async () => {
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

  test("the source pod ends and no node has the guest: the VM has failed", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.endPod(await story.findSource(), "Failed");
    story.bench.nowMs += 61_000;
    await story.settle();
    expect(await story.phase()).toBe("Failed");
    expect((await story.vmi()).status?.phase).toBe("Failed");
    expect(await story.findTarget()).toBeUndefined();
  });

  test("the migration object is deleted by force: the migration is canceled", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    const key = { ...KEY, name: `move-${UID}` };
    await story.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, key);
    await story.settle();
    expect(await story.state()).toMatchObject({ abortRequested: true });
    await story.writeState({ failed: true, failureReason: "it was canceled" });
    expect(await story.state()).toMatchObject({ completed: true, failed: true });
    expect(await story.findTarget()).toBeUndefined();
    expect(await story.findSource()).toBeDefined();
  });

  test("the migration object is deleted by force and the target pod ends: waits 5 min for the source's report", async () => {
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

  test("the target pod ends after the guest left the source: the VM has failed, whatever happens to its pod", async () => {
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

describe("a guest that is paused on its target", () => {
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

  test("is reported until it continues", async () => {
    const story = await held();
    expect(await isTold(story)).toEqual([true, true]);
    await story.writeState({ targetNodeDomainFaults: [] });
    await story.arrive();
    expect(await isTold(story)).toEqual([false, false]);
    expect(await story.phase()).toBe("Succeeded");
  });

  test("is not affected by a cancel, which is too late", async () => {
    const story = await held();
    await story.cancel();
    await story.writeState({ sourceNodeDomainLeft: true });
    expect(await story.phase()).toBe("Running");
    expect(await story.findTarget()).toBeDefined();
  });

  test("stops when its VM is stopped", async () => {
    const story = await held();
    await story.stop();
    await story.writeState({ sourceNodeDomainLeft: true });
    expect(await story.phase()).toBe("Failed");
    expect(await story.findTarget()).toBeUndefined();
    expect((await story.vmi()).status?.phase).toBe("Failed");
  });
});
