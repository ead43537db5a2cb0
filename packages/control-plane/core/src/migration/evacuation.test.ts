// SPDX-License-Identifier: Apache-2.0
// What is done about a guest that is to leave its node?
import type { EvictionStrategy, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aGuest, aMigration, NOW } from "../testing/migration-facts.ts";
import { buildEvictionCondition, planEvacuation, type EvacuationFacts } from "./evacuation.ts";

const NODE = { nodeName: "node1", evacuationNodeName: "node1" };
const DRAINED = { ...NODE, drainedNodeName: "node1" };
const NOW_MS = Date.parse(NOW);
const STUCK = [{ type: "LiveMigratable", status: "False" }] as const;

function reported(status: VmiStatus = {}, strategy?: EvictionStrategy): VirtualMachineInstance {
  const vmi = aGuest({ ...DRAINED, ...status });
  if (strategy === undefined) return vmi;
  return { ...vmi, spec: { ...vmi.spec, evictionStrategy: strategy } };
}

function plan(vmi: VirtualMachineInstance, change: Partial<EvacuationFacts> = {}) {
  const input = {
    migrations: [],
    clusterStrategy: "LiveMigrate" as const,
    nowMs: NOW_MS,
    isNodeSchedulable: false,
  };
  return planEvacuation({ vmi, ...input, ...change });
}

/** One that was made for the drain, and failed so many milliseconds ago. */
function failedAgo(agoMs: number, uid: string, node = "node1") {
  const annotations = { "kubevirt.io/evacuationMigration": node };
  const creationTimestamp = new Date(NOW_MS - agoMs - 1000).toISOString();
  const migration = aMigration("Failed", { uid, name: uid, annotations, creationTimestamp });
  const at = new Date(NOW_MS - agoMs).toISOString();
  const times = [{ phase: "Failed" as const, phaseTransitionTimestamp: at }];
  return { ...migration, status: { phase: "Failed" as const, phaseTransitionTimestamps: times } };
}

describe("a guest whose node is drained", () => {
  test("gets a migration marked as evacuation", () => {
    expect(plan(reported())).toMatchObject({
      kind: "createMigration",
      migration: {
        metadata: {
          namespace: "default",
          name: expect.stringMatching(/^kubevirt-evacuation-[0-9a-f]{10}$/) as string,
          annotations: { "kubevirt.io/evacuationMigration": "node1" },
        },
        spec: { vmiName: "vm1" },
      },
    });
    expect(plan(reported())).toEqual(plan(reported()));
  });

  test.each<{ name: string; vmi: VirtualMachineInstance; change?: Partial<EvacuationFacts> }>([
    { name: "its node is not marked for evacuation", vmi: aGuest({ nodeName: "node1" }) },
    { name: "the guest cannot be migrated", vmi: reported({ conditions: [...STUCK] }) },
    { name: "an external controller evacuates it", vmi: reported({}, "External") },
    { name: "its eviction strategy shuts it down", vmi: reported({}, "None") },
    {
      name: "a migration is running",
      vmi: reported(),
      change: { migrations: [aMigration("Running")] },
    },
    { name: "a migration is queued", vmi: reported(), change: { migrations: [aMigration()] } },
    {
      name: "the VM is being stopped",
      vmi: { ...reported(), metadata: { ...reported().metadata, deletionTimestamp: NOW } },
    },
  ])("gets no migration while $name", ({ vmi, change }) => {
    expect(plan(vmi, change)).toBeUndefined();
  });

  test.each([
    { name: "has migrated", status: { nodeName: "node2" } },
    { name: "has ended", status: { phase: "Succeeded" as const } },
  ])("is no longer marked once it $name", ({ status }) => {
    expect(plan(reported(status))).toEqual({ kind: "clearMark", node: "node1" });
  });
});

describe("a drain", () => {
  test.each<{ name: string; status: VmiStatus; isNodeSchedulable: boolean; want: unknown }>([
    {
      name: "is recorded while the node is cordoned",
      status: NODE,
      isNodeSchedulable: false,
      want: { kind: "recordDrain", node: "node1" },
    },
    {
      name: "of another node is replaced",
      status: { ...NODE, drainedNodeName: "node0" },
      isNodeSchedulable: false,
      want: { kind: "recordDrain", node: "node1" },
    },
    {
      name: "ends when the node is uncordoned",
      status: DRAINED,
      isNodeSchedulable: true,
      want: { kind: "clearMark", node: "node1" },
    },
    {
      name: "is forgotten when its eviction was canceled",
      status: { nodeName: "node1", drainedNodeName: "node1" },
      isNodeSchedulable: false,
      want: { kind: "clearDrain" },
    },
  ])("$name", ({ status, isNodeSchedulable, want }) => {
    expect(plan(aGuest(status), { isNodeSchedulable })).toEqual(want);
  });

  test("ends although a migration runs and the VM cannot be migrated", () => {
    const change = { isNodeSchedulable: true, migrations: [aMigration("Running")] };
    const step = plan(reported({ conditions: [...STUCK] }, "External"), change);
    expect(step).toEqual({ kind: "clearMark", node: "node1" });
  });

  test("of a schedulable node, as a descheduler requests, leads to a migration", () => {
    expect(plan(aGuest(NODE), { isNodeSchedulable: true })?.kind).toBe("createMigration");
  });
});

describe("failed attempts", () => {
  test.each([
    { tries: 1, agoMs: 5_000, want: 15_000 },
    { tries: 1, agoMs: 20_000, want: undefined },
    { tries: 2, agoMs: 20_000, want: 20_000 },
    { tries: 3, agoMs: 20_000, want: 60_000 },
    { tries: 5, agoMs: 0, want: 320_000 },
    { tries: 9, agoMs: 0, want: 320_000 },
  ])("$tries of them, the last $agoMs ms ago: the next attempt waits $want ms more", (row) => {
    const { tries, agoMs, want } = row;
    const migrations = Array.from({ length: tries }, (_, index) =>
      failedAgo(agoMs + (tries - 1 - index) * 400_000, `m${String(index)}`),
    );
    const step = plan(reported(), { migrations });
    expect(step?.kind === "wait" ? step.forMs : undefined).toBe(want);
    expect(step).toBeDefined();
  });

  test.each([
    { name: "cordoned", isNodeSchedulable: false, agoMs: 5_000, want: "wait" },
    { name: "schedulable", isNodeSchedulable: true, agoMs: 5_000, want: "clearMark" },
    {
      name: "schedulable, where an eviction follows the pause",
      isNodeSchedulable: true,
      agoMs: 20_000,
      want: "createMigration",
    },
  ])("on a node that is $name lead to $want", ({ isNodeSchedulable, agoMs, want }) => {
    const vmi = isNodeSchedulable ? aGuest(NODE) : reported();
    const step = plan(vmi, { migrations: [failedAgo(agoMs, "m1")], isNodeSchedulable });
    expect(step?.kind).toBe(want);
  });

  test("of an earlier VMI with the same name do not delay an evacuation", () => {
    const { metadata, ...vmi } = reported();
    const creationTimestamp = new Date(NOW_MS - 1000).toISOString();
    const successor = { ...vmi, metadata: { ...metadata, creationTimestamp } };
    const step = plan(successor, { migrations: [failedAgo(5_000, "m1")] });
    expect(step?.kind).toBe("createMigration");
  });

  test("give the next migration another name; migrations of other drains do not count", () => {
    const first = plan(reported());
    const next = plan(reported(), { migrations: [failedAgo(30_000, "m1")] });
    expect(next?.kind).toBe("createMigration");
    expect(next).not.toEqual(first);
    const elsewhere = failedAgo(1000, "m1", "node2");
    expect(plan(reported(), { migrations: [elsewhere] })).toEqual(first);
  });
});

test.each([
  { name: "marked on its node", status: { evacuationNodeName: "a", nodeName: "a" }, want: 1 },
  { name: "not marked", status: { nodeName: "a" }, want: 0 },
  { name: "on another node", status: { evacuationNodeName: "a", nodeName: "b" }, want: 0 },
])("a VMI that is $name has $want conditions of an eviction", ({ status, want }) => {
  const conditions = buildEvictionCondition({ ...aGuest({}), status });
  expect(conditions).toHaveLength(want);
  for (const condition of conditions) {
    expect(condition).toMatchObject({
      type: "EvictionRequested",
      status: "True",
      reason: "EvictionRequested",
      message: "an eviction was requested: the guest is to leave node a",
    });
  }
});
