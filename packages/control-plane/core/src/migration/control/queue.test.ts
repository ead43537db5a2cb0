// SPDX-License-Identifier: Apache-2.0
// Whose turn is it, of one VMI's migrations, and of the cluster's?
import type { MIGRATION_PRIORITIES } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aGuest, aMigration } from "../../testing/migration-facts.ts";
import { currentMigration, mayBegin } from "./queue.ts";

type Phase = Parameters<typeof aMigration>[0];

/** `vmi` begins with the letter of its node. */
function of(uid: string, phase: Phase, vmi = "a1"): ReturnType<typeof aMigration> {
  const second = uid.replace(/\D/g, "") || "9";
  const creationTimestamp = `2026-01-01T00:00:0${second}Z`;
  const migration = aMigration(phase, { name: uid, uid, creationTimestamp });
  return { ...migration, spec: { vmiName: vmi } };
}

function urgent(
  migration: ReturnType<typeof of>,
  priority: (typeof MIGRATION_PRIORITIES)[number],
): ReturnType<typeof of> {
  return { ...migration, spec: { ...migration.spec, priority } };
}

describe("the current migration of a VMI", () => {
  test.each<{ name: string; all: ReturnType<typeof of>[]; open?: string; want?: string }>([
    { name: "none", all: [] },
    { name: "not an ended migration", all: [of("m1", "Failed")] },
    {
      name: "the oldest migration",
      all: [of("m2", "Pending"), of("m1", undefined)],
      want: "m1",
    },
    {
      name: "the migration with the higher priority",
      all: [of("m1", "Pending"), urgent(of("m2", "Pending"), "system-critical")],
      want: "m2",
    },
    {
      name: "the user-triggered migration before maintenance",
      all: [
        urgent(of("m1", "Pending"), "system-maintenance"),
        urgent(of("m2", "Pending"), "user-triggered"),
      ],
      want: "m2",
    },
    {
      name: "a migration without priority last",
      all: [of("m1", "Pending"), urgent(of("m2", "Pending"), "system-maintenance")],
      want: "m2",
    },
    {
      name: "the migration that has begun",
      all: [of("m1", "Pending"), of("m2", "Scheduling")],
      want: "m2",
    },
    {
      name: "the open migration",
      all: [of("m1", "Scheduling"), of("m2", "Running")],
      open: "m2",
      want: "m2",
    },
    {
      name: "none while the open migration's object is missing",
      all: [of("m1", "Pending")],
      open: "m9",
    },
  ])("$name", ({ all, open, want }) => {
    const vmi = aGuest(open === undefined ? {} : { migrationState: { migrationUid: open } });
    expect(currentMigration(all, vmi)?.metadata.uid).toBe(want);
  });
});

describe("the cluster's limits", () => {
  const LIMITS = { perCluster: 3, perNode: 2 };

  test.each<{ name: string; others: ReturnType<typeof of>[]; want: boolean }>([
    { name: "no other guest migrates", others: [], want: true },
    {
      name: "one other guest leaves the same node",
      others: [of("o1", "Running", "a2")],
      want: true,
    },
    {
      name: "two other guests leave the same node",
      others: [of("o1", "Running", "a2"), of("o2", "Scheduling", "a3")],
      want: false,
    },
    {
      name: "two guests leave another node",
      others: [of("o1", "Running", "b2"), of("o2", "Scheduled", "b3")],
      want: true,
    },
    {
      name: "three guests leave other nodes",
      others: [of("o1", "Running", "b2"), of("o2", "Scheduled", "b3"), of("o3", "Running", "c1")],
      want: false,
    },
    {
      name: "the other migrations have ended",
      others: [of("o1", "Failed", "a2"), of("o2", "Succeeded", "a3")],
      want: true,
    },
    {
      name: "two migrations of its node are queued before it",
      others: [of("o1", "Pending", "a2"), of("o2", "Pending", "a3")],
      want: false,
    },
    {
      name: "three migrations of another node are queued before it, of which two may begin",
      others: [of("o1", "Pending", "b2"), of("o2", "Pending", "b3"), of("o3", "Pending", "b4")],
      want: true,
    },
    {
      name: "two migrations of one guest are queued before it",
      others: [of("o1", "Pending", "a2"), of("o2", "Pending", "a2")],
      want: true,
    },
    {
      name: "the migrations queued before it have no guest",
      others: [of("o1", "Pending", "none"), of("o2", "Pending", "none2")],
      want: true,
    },
    { name: "its own guest migrates already", others: [of("o1", "Running", "a1")], want: false },
  ])("$name: $want", ({ others, want }) => {
    const migration = of("m", "Pending");
    const nodeOf = ({ spec: { vmiName = "" } }: typeof migration) =>
      vmiName.startsWith("none") ? undefined : vmiName.slice(0, 1);
    const by = { limits: LIMITS, nodeOf };
    expect(mayBegin(migration, [...others, migration], by)).toBe(want);
  });
});
