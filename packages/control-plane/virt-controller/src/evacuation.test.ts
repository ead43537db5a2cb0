// SPDX-License-Identifier: Apache-2.0
// A node is drained: what virt-controller does with the guests that are told to leave it.
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

/** A guest on node1 that was told to leave it. */
async function drained(status: VmiStatus = {}): Promise<Migrating> {
  const story = await Migrating.begin([], []);
  const vmi = await story.vmi();
  const spec = { ...vmi.spec, evictionStrategy: "LiveMigrate" };
  const marked = { ...vmi.status, evacuationNodeName: "node1", ...status };
  await story.bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec, status: marked });
  await story.bench.catchUp();
  return story;
}

async function migrationsOf({ bench }: Migrating): Promise<readonly Migration[]> {
  return (await bench.server.list(MIGRATIONS)).items;
}

test("a guest that is to leave gets one migration, however often it is looked at", async () => {
  const story = await drained();
  await story.bench.passEvacuation();
  await story.bench.passEvacuation();
  await story.bench.catchUp();
  await story.bench.passEvacuation();
  const [migration, ...others] = await migrationsOf(story);
  expect(others).toEqual([]);
  expect(migration).toMatchObject({
    metadata: { annotations: { "kubevirt.io/evacuationMigration": "node1" } },
    spec: { vmiName: "vm1" },
  });
});

test("when it fails the next is asked for after a while", async () => {
  const story = await drained();
  await story.bench.passEvacuation();
  await story.bench.catchUp();
  const [made] = await migrationsOf(story);
  if (made === undefined) throw new Error("there is no migration");
  const at = new Date(story.bench.nowMs).toISOString();
  const phaseTransitionTimestamps = [{ phase: "Failed" as const, phaseTransitionTimestamp: at }];
  const status = { phase: "Failed", phaseTransitionTimestamps } as const;
  await story.bench.put(MIGRATIONS, { ...made, status });
  await story.bench.catchUp();
  expect(await story.bench.passEvacuation()).toEqual({ kind: "after", ms: 20_000 });
  expect(await migrationsOf(story)).toHaveLength(1);
});

test("once it is on another node nothing is left of it", async () => {
  const story = await drained({ nodeName: "node2" });
  expect(await story.bench.passEvacuation()).toEqual(done());
  expect((await story.vmi()).status).not.toHaveProperty("evacuationNodeName");
  expect(await migrationsOf(story)).toEqual([]);
});

test("a guest that nobody has told costs nothing", async () => {
  const story = await Migrating.begin([], []);
  await story.bench.catchUp();
  expect(await story.bench.passEvacuation()).toEqual(done());
  expect(story.bench.calls).toEqual([]);
});
