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
  scenario: Migrating,
  migrations: { parallelMigrationsPerCluster?: number; maxDowntimeMs?: number },
): Promise<void> {
  await scenario.bench.put(KUBEVIRTS, {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt", namespace: "patchbay", uid: "kv" },
    spec: { configuration: { migrations } },
  });
}

describe("limits", () => {
  test("a second migration of a VMI waits until the first has ended", async () => {
    const scenario = await Migrating.begin(undefined, [aMigration(), later("m2", 1)]);
    expect([await scenario.phase(), await scenario.phase("m2")]).toEqual(["Scheduling", "Pending"]);
    expect(await scenario.findTarget("m2")).toBeUndefined();
  });

  test("a migration waits while the limit of parallel migrations is reached", async () => {
    const other = later("other", 0, { spec: { vmiName: "vm2" }, status: { phase: "Running" } });
    const scenario = new Migrating();
    await configure(scenario, { parallelMigrationsPerCluster: 1 });
    await scenario.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, other);
    await scenario.start([aMigration()]);
    expect(await scenario.phase()).toBe("Pending");
    await scenario.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      ...other,
      status: { phase: "Succeeded" },
    });
    await scenario.settle();
    expect(await scenario.phase()).toBe("Scheduling");
  });

  test("a waiting migration is deleted at once", async () => {
    const scenario = await Migrating.begin(undefined, [aMigration(), later("m2", 1)]);
    const waiting = await scenario.migration("m2");
    const finalizers = ["kubevirt.io/migrationJobFinalize"];
    const metadata = { ...aMigration("m2").metadata, ...waiting?.metadata, finalizers };
    await scenario.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      ...later("m2", 1),
      metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:02:00Z" },
    });
    await scenario.settle();
    expect((await scenario.migration("m2"))?.metadata.finalizers).toEqual([]);
    expect(await scenario.phase()).toBe("Scheduling");
  });

  test("a migration without a suitable node fails before it creates a pod", async () => {
    const scenario = new Migrating();
    await scenario.bench.put(NODES, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "node1" },
    });
    await scenario.start([aMigration()]);
    const { status } = (await scenario.migration()) ?? {};
    expect(status).toMatchObject({
      phase: "Failed",
      migrationState: { failureReason: expect.stringMatching(/^no node can take/) as string },
    });
    expect(await scenario.findTarget()).toBeUndefined();
    expect((await scenario.vmi()).status?.migrationState).toBeUndefined();
  });
});

describe("settings", () => {
  test("come from the cluster, and from a policy that selects the guest", async () => {
    const scenario = new Migrating();
    await configure(scenario, { maxDowntimeMs: 500 });
    await scenario.bench.put(NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "default", labels: { stage: "production" } },
    });
    await scenario.bench.put(MIGRATION_POLICIES, {
      apiVersion: "migrations.kubevirt.io/v1alpha1",
      kind: "MigrationPolicy",
      metadata: { name: "careful" },
      spec: { selectors: { namespaceSelector: { stage: "production" } }, allowAutoConverge: true },
    });
    await scenario.start([aMigration()]);
    await scenario.runTarget();
    expect(await scenario.state()).toMatchObject({
      migrationPolicyName: "careful",
      migrationConfiguration: { maxDowntimeMs: 500, allowAutoConverge: true },
    });
  });
});

describe("cleanup", () => {
  test("the five newest finished migrations stay, and older ones are deleted", async () => {
    const all = [1, 2, 3, 4, 5, 6, 7].map((minute) => over(`m${String(minute)}`, minute));
    const scenario = await Migrating.begin(undefined, all);
    const { items } = await scenario.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
    const left = items.map(({ metadata }) => metadata.uid);
    expect(new Set(left)).toEqual(new Set(["m3", "m4", "m5", "m6", "m7"]));
  });

  test("a canceled migration is deleted after its target pod", async () => {
    const scenario = await Migrating.begin();
    await scenario.cancel();
    expect(await scenario.findTarget()).toBeUndefined();
    const { metadata, status } = (await scenario.migration()) ?? {};
    expect(status?.phase).toBe("Failed");
    expect(metadata?.finalizers).toEqual([]);
  });

  test("a migration reports the quota that blocks its pod", async () => {
    const scenario = new Migrating();
    scenario.bench.refuse("create pods", "KUBE_FORBIDDEN");
    await scenario.start([aMigration()]);
    expect(await scenario.phase()).toBe("Pending");
  });
});

describe("pods that end during a migration", () => {
  test("the source pod ends: the target's report decides", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.endPod(await scenario.findSource());
    expect(await scenario.state()).toMatchObject({
      sourceEndedTimestamp: expect.any(String) as string,
    });
    expect((await scenario.vmi()).status?.phase).toBe("Running");
    await scenario.arrive();
    expect(await scenario.phase()).toBe("Succeeded");
    expect((await scenario.vmi()).status).toMatchObject({ phase: "Running", nodeName: "node2" });
  });

  test("the source pod ends and no node has the guest: the VM has failed", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.endPod(await scenario.findSource(), "Failed");
    scenario.bench.nowMs += 61_000;
    await scenario.settle();
    expect(await scenario.phase()).toBe("Failed");
    expect((await scenario.vmi()).status?.phase).toBe("Failed");
    expect(await scenario.findTarget()).toBeUndefined();
  });

  test("the migration object is deleted by force: the migration is canceled", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    const key = { ...KEY, name: `move-${UID}` };
    await scenario.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, key);
    await scenario.settle();
    expect(await scenario.state()).toMatchObject({ abortRequested: true });
    await scenario.writeState({ failed: true, failureReason: "it was canceled" });
    expect(await scenario.state()).toMatchObject({ completed: true, failed: true });
    expect(await scenario.findTarget()).toBeUndefined();
    expect(await scenario.findSource()).toBeDefined();
  });

  test("the migration object is deleted by force and the target pod ends: waits 5 min for the source's report", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    const key = { ...KEY, name: `move-${UID}` };
    await scenario.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, key);
    await scenario.endPod(await scenario.target(), "Failed");
    scenario.bench.nowMs += 299_000;
    await scenario.settle();
    expect(await scenario.state()).not.toHaveProperty("completed");
    scenario.bench.nowMs += 2_000;
    await scenario.settle();
    expect(await scenario.state()).toMatchObject({ completed: true, failed: true });
    expect((await scenario.vmi()).status?.phase).toBe("Running");
  });

  test("the target pod ends after the guest left the source: the VM has failed, whatever pod it had", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.endPod(await scenario.target(), "Failed");
    await scenario.writeState({ sourceNodeDomainLeft: true });
    expect(await scenario.phase()).toBe("Failed");
    expect(await scenario.state()).toMatchObject({
      completed: true,
      failed: true,
      guestLost: true,
    });
    expect((await scenario.vmi()).status).toMatchObject({ phase: "Failed", reason: "GuestLost" });
    await scenario.endPod(await scenario.findSource(), "Succeeded");
    expect((await scenario.vmi()).status?.phase).toBe("Failed");
  });
});

describe("a guest that is paused on its target", () => {
  const FAULTS = ["the NIC with MAC 02:00:00:00:00:01 has another tap: tap9"];

  async function held(): Promise<Migrating> {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.writeState({ targetNodeDomainDetected: true, targetNodeDomainFaults: FAULTS });
    return scenario;
  }

  async function isTold(scenario: Migrating): Promise<readonly boolean[]> {
    const objects = [await scenario.vmi(), await scenario.migration()];
    return objects.map(
      (object) => object?.status?.conditions?.some(({ type }) => type === "GuestHeld") === true,
    );
  }

  test("is reported until it continues", async () => {
    const scenario = await held();
    expect(await isTold(scenario)).toEqual([true, true]);
    await scenario.writeState({ targetNodeDomainFaults: [] });
    await scenario.arrive();
    expect(await isTold(scenario)).toEqual([false, false]);
    expect(await scenario.phase()).toBe("Succeeded");
  });

  test("is not affected by a cancel, which is too late", async () => {
    const scenario = await held();
    await scenario.cancel();
    await scenario.writeState({ sourceNodeDomainLeft: true });
    expect(await scenario.phase()).toBe("Running");
    expect(await scenario.findTarget()).toBeDefined();
  });

  test("stops when its VM is stopped", async () => {
    const scenario = await held();
    await scenario.stop();
    await scenario.writeState({ sourceNodeDomainLeft: true });
    expect(await scenario.phase()).toBe("Failed");
    expect(await scenario.findTarget()).toBeUndefined();
    expect((await scenario.vmi()).status?.phase).toBe("Failed");
  });
});
