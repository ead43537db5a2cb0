// SPDX-License-Identifier: Apache-2.0
// Evacuation of guests during a node drain.
import {
  NODES,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstanceMigration,
  type VmiStatus,
} from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { done } from "@patchbay/kube";
import { expect, test } from "vitest";
import { Migrating } from "./testing/migrating.ts";

type Migration = VirtualMachineInstanceMigration;
const MIGRATIONS = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;

/** A guest on node1 that is marked for evacuation. */
async function drained(status: VmiStatus = {}): Promise<Migrating> {
  const scenario = await Migrating.begin([], []);
  const vmi = await scenario.vmi();
  const spec = { ...vmi.spec, evictionStrategy: "LiveMigrate" };
  const marked = { ...vmi.status, evacuationNodeName: "node1", ...status };
  await scenario.bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec, status: marked });
  await scenario.bench.catchUp();
  return scenario;
}

async function listMigrations({ bench }: Migrating): Promise<readonly Migration[]> {
  return (await bench.server.list(MIGRATIONS)).items;
}

test("creates one migration for an evacuated guest, however often it reconciles", async () => {
  const scenario = await drained();
  await scenario.bench.passEvacuation();
  await scenario.bench.passEvacuation();
  await scenario.bench.catchUp();
  await scenario.bench.passEvacuation();
  const [migration, ...others] = await listMigrations(scenario);
  expect(others).toEqual([]);
  expect(migration).toMatchObject({
    metadata: { annotations: { "kubevirt.io/evacuationMigration": "node1" } },
    spec: { vmiName: "vm1" },
  });
});

test("creates the next migration some time after a failure", async () => {
  const scenario = await drained();
  await scenario.bench.passEvacuation();
  await scenario.bench.catchUp();
  const [made] = await listMigrations(scenario);
  if (made === undefined) throw new Error("there is no migration");
  const at = new Date(scenario.bench.nowMs).toISOString();
  const phaseTransitionTimestamps = [{ phase: "Failed" as const, phaseTransitionTimestamp: at }];
  const status = { phase: "Failed", phaseTransitionTimestamps } as const;
  await scenario.bench.put(MIGRATIONS, { ...made, status });
  await scenario.bench.catchUp();
  expect(await scenario.bench.passEvacuation()).toEqual({ kind: "after", ms: 20_000 });
  expect(await listMigrations(scenario)).toHaveLength(1);
});

test("removes the mark when the guest runs on another node", async () => {
  const scenario = await drained({ nodeName: "node2" });
  expect(await scenario.bench.passEvacuation()).toEqual(done());
  expect((await scenario.vmi()).status).not.toHaveProperty("evacuationNodeName");
  expect(await listMigrations(scenario)).toEqual([]);
});

function aNode(isCordoned: boolean): KubeNode {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node1", uid: "node1-uid" },
    spec: { unschedulable: isCordoned },
  };
}

test("withdraws the eviction when its node is uncordoned, and does not repeat it", async () => {
  const scenario = await drained();
  await scenario.bench.put(NODES, aNode(true));
  await scenario.bench.passEvacuation();
  expect((await scenario.vmi()).status).toMatchObject({
    evacuationNodeName: "node1",
    drainedNodeName: "node1",
  });
  await scenario.bench.put(NODES, aNode(false));
  await scenario.bench.passEvacuation();
  await scenario.bench.catchUp();
  expect(await scenario.bench.passEvacuation()).toEqual(done());
  const { status } = await scenario.vmi();
  expect(status).not.toHaveProperty("evacuationNodeName");
  expect(status).not.toHaveProperty("drainedNodeName");
  expect(await listMigrations(scenario)).toHaveLength(1);
});

test("forgets the cordoned node after the eviction was canceled", async () => {
  const scenario = await Migrating.begin([], []);
  const vmi = await scenario.vmi();
  const status = { ...vmi.status, drainedNodeName: "node1" };
  await scenario.bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, status });
  await scenario.bench.passEvacuation();
  expect((await scenario.vmi()).status).not.toHaveProperty("drainedNodeName");
});

test("makes no requests for a guest that is not evacuated", async () => {
  const scenario = await Migrating.begin([], []);
  await scenario.bench.catchUp();
  expect(await scenario.bench.passEvacuation()).toEqual(done());
  expect(scenario.bench.calls).toEqual([]);
});
