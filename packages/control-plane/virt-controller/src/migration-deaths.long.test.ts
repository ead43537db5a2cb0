// SPDX-License-Identifier: Apache-2.0
// virt-controller crashes after each write of a migration: the guest keeps its pod, and the outcome is the same as
// without a crash. tests/faults/moves.long.test.ts covers a migration that succeeds at once, with the node's processes.
import { isMigrationFinal, names, VIRTUAL_MACHINE_INSTANCE_MIGRATIONS } from "@patchbay/api";
import { openMigration } from "@patchbay/core/migration";
import { describe, expect, test } from "vitest";
import { TwoNodes, type MigrationResult } from "./testing/two-node-cluster.ts";

/** All actors act once, until the guest is migrating. */
async function goOut(world: TwoNodes, fate: MigrationResult = "moves on"): Promise<void> {
  for (let round = 0; round < 8; round += 1) {
    await world.learn();
    await world.pass();
    await world.actNodes(fate);
  }
}

const STORIES: Readonly<Record<string, (world: TwoNodes) => Promise<void>>> = {
  "a guest moves, and moves on": async (world) => {
    world.requestMigration();
    await goOut(world, "arrives");
    await world.settle();
    world.requestMigration();
    await goOut(world, "arrives");
  },
  "a guest stays": async (world) => {
    world.requestMigration();
    await goOut(world);
    await world.actNodes("stays");
  },
  "it is cancelled at once": async (world) => {
    world.requestMigration();
    await world.learn();
    await world.pass();
    await world.cancel();
  },
  "it is cancelled on its way": async (world) => {
    world.requestMigration();
    await goOut(world);
    await world.cancel();
    await world.learn();
    await world.pass();
    await world.actNodes("stays");
  },
  "the VM is stopped on its way": async (world) => {
    world.requestMigration();
    await goOut(world);
    await world.stop();
    await world.learn();
    await world.pass();
    await world.actNodes("arrives");
  },
  "a NIC is plugged on its way": async (world) => {
    world.requestMigration();
    await goOut(world);
    await world.toggle("three");
    await goOut(world, "arrives");
  },
};

/** The outcome if the response to the write with this number is lost; 0: none is lost. */
async function endOf(scenario: (world: TwoNodes) => Promise<void>, lost: number) {
  const world = new TwoNodes();
  await world.begin();
  const before = world.scenario.bench.writes;
  world.scenario.bench.loseAnswer(lost === 0 ? 0 : before + lost);
  await scenario(world);
  await world.settle();
  const [vmi, pods] = [await world.vmi(), await world.pods()];
  const { items } = await world.scenario.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
  const end = {
    guest: world.guest,
    pods: pods.map(({ metadata }) => metadata.name),
    faults: world.faults,
    open: vmi && openMigration(vmi),
    node: vmi?.status?.nodeName,
    label: vmi?.metadata.labels?.[names.MIGRATION_TARGET_NODE_LABEL],
    phases: items.map(({ status }) => status?.phase),
    waiting: items.filter((migration) => !isMigrationFinal(migration)).length,
    attachments: vmi?.status?.attachments?.map(({ name, state }) => `${name} ${state}`),
  };
  return { end, writes: world.scenario.bench.writes - before };
}

describe.each(Object.keys(STORIES))("%s", (name) => {
  test("the outcome is the same after each crash", async () => {
    const scenario = STORIES[name] ?? (() => Promise.resolve());
    const { end, writes } = await endOf(scenario, 0);
    expect(end).toMatchObject({ faults: [], open: undefined, waiting: 0, label: undefined });
    expect(writes).toBeGreaterThan(3);
    for (let lost = 1; lost <= writes; lost += 1) {
      expect({ lost, ...(await endOf(scenario, lost)).end }).toEqual({ lost, ...end });
    }
  });
});
