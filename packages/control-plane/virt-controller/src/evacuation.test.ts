// SPDX-License-Identifier: Apache-2.0
// Evacuation of guests during a node drain.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstanceMigration,
  type VmiStatus,
} from "@patchbay/api";
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

test("makes no requests for a guest that is not evacuated", async () => {
  const scenario = await Migrating.begin([], []);
  await scenario.bench.catchUp();
  expect(await scenario.bench.passEvacuation()).toEqual(done());
  expect(scenario.bench.calls).toEqual([]);
});
