// SPDX-License-Identifier: Apache-2.0
// A migration against an API server with the rights of the manifests: the VM runs throughout, and no requests
// follow after its end.
import {
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type MigrationState,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { launcherPodName } from "@patchbay/core/migration";
import { eventually } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { aMigration } from "./testing/migrating.ts";
import { useStage } from "./testing/component-environment.ts";

type Migration = VirtualMachineInstanceMigration;

const SOON = { withinMs: 5000 };
const KEY = { namespace: "default", name: "move" };
const NIC = { name: "one", mac: "02:00:00:00:00:01" };

const stage = useStage();

function find(): Promise<Migration | undefined> {
  return stage.admin.store.find(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, KEY);
}

async function phaseIs(phase: string): Promise<Migration> {
  return eventually(async () => {
    const migration = await find();
    return migration?.status?.phase === phase ? migration : undefined;
  }, SOON);
}

afterEach(async () => {
  await stage.admin.store.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, KEY);
  const { items } = await stage.admin.store.list(PODS, { namespace: "default" });
  for (const { metadata } of items) await end(metadata.name);
});

async function end(name: string): Promise<void> {
  await stage.admin.store.delete(PODS, { ...KEY, name }, { gracePeriodSeconds: 0 });
}

/** A guest on node1, and a migration of it. */
async function ask(): Promise<void> {
  await stage.scene.createVm([NIC]);
  await stage.scene.boot();
  await stage.scene.attachAll();
  const vmi = await stage.scene.vmiWhen(
    ({ status }) => status?.attachments?.[0]?.state === "Attached",
  );
  const { podInterfaceName } = vmi.status?.attachments?.[0] ?? {};
  const hotplug = { type: "Plug", phase: "Ready" } as const;
  const nic = podInterfaceName === undefined ? {} : { podInterfaceName };
  await stage.scene.reportVmi({ interfaces: [{ name: NIC.name, ...nic, hotplug }] });
  await stage.scene.vmiWhen(
    ({ status }) =>
      status?.conditions?.some(
        (each) => each.type === "LiveMigratable" && each.status === "True",
      ) === true,
  );
  const { metadata, ...migration } = aMigration();
  await stage.admin.store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
    ...migration,
    metadata: { ...KEY, labels: metadata.labels ?? {} },
  });
}

/** The target pod, scheduled and running. */
async function runTarget(): Promise<Pod> {
  const { metadata } = await phaseIs("Scheduling");
  const vmi = await stage.scene.vmi();
  const key = { ...KEY, name: launcherPodName(vmi, metadata.uid) };
  const pod = await eventually(() => stage.admin.store.find(PODS, key), SOON);
  await stage.admin.requestRaw({
    method: "POST",
    path: `/api/v1/namespaces/default/pods/${key.name}/binding`,
    body: {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name: key.name },
      target: { apiVersion: "v1", kind: "Node", name: "node2" },
    },
  });
  const operations = [{ op: "add", path: "/status", value: { phase: "Running" } }] as const;
  const options = { subresource: "status" } as const;
  await stage.admin.store.patch(PODS, key, { type: "json", operations }, options);
  await phaseIs("PreparingTarget");
  return pod;
}

/** Writes a node's report. */
async function say(members: Partial<MigrationState>): Promise<void> {
  const { migrationState } = (await stage.scene.vmi()).status ?? {};
  await stage.scene.reportVmi({ migrationState: { ...migrationState, ...members } });
}

test("the VM runs throughout, ends in one pod, and causes no further requests", async () => {
  await ask();
  const target = await runTarget();
  const source = await stage.scene.pod();
  await say({ targetNodeAddress: "192.0.2.2", targetDirectMigrationNodePorts: { "40000": 0 } });
  await phaseIs("TargetReady");
  await say({ startTimestamp: "2026-01-01T00:00:00Z", mode: "PreCopy" });
  await phaseIs("Running");
  const moving = await stage.scene.vmWhen(({ status }) => status?.printableStatus === "Migrating");
  expect(moving.status?.ready).toBe(true);
  await say({ targetNodeDomainReadyTimestamp: "2026-01-01T00:00:01Z" });
  await phaseIs("Succeeded");
  const vmi = await stage.scene.vmiWhen(
    ({ metadata }) => metadata.labels?.["kubevirt.io/nodeName"] === "node2",
  );
  expect(vmi.status).toMatchObject({ phase: "Running", nodeName: "node2" });
  expect(Object.values(vmi.status?.activePods ?? {})).toEqual(["node2"]);
  const left = { ...KEY, name: source.metadata.name };
  await eventually(async () => {
    const pod = await stage.admin.store.find(PODS, left);
    return pod?.metadata.deletionTimestamp !== undefined || undefined;
  }, SOON);
  await end(left.name);
  await stage.scene.vmWhen(({ status }) => status?.printableStatus === "Running");
  expect(await stage.admin.store.find(PODS, { ...KEY, name: target.metadata.name })).toBeDefined();
  expect(stage.controller.calls.filter((call) => call.startsWith("list"))).toEqual([]);
});

test("deleting the migration cancels it, and the guest stays", async () => {
  await ask();
  const target = await runTarget();
  await stage.admin.store.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, KEY);
  const vmi = await stage.scene.vmiWhen(({ status }) => status?.migrationState?.failed === true);
  expect(vmi.status).toMatchObject({ phase: "Running", nodeName: "node1" });
  await eventually(async () => {
    const key = { ...KEY, name: target.metadata.name };
    const pod = await stage.admin.store.find(PODS, key);
    return pod?.metadata.deletionTimestamp !== undefined || undefined;
  }, SOON);
  // The finalizer stays until the pod is deleted.
  expect(await find()).toBeDefined();
  await end(target.metadata.name);
  await eventually(async () => (await find()) === undefined || undefined, SOON);
});
