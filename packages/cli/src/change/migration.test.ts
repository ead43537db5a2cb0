// SPDX-License-Identifier: Apache-2.0
import type { MigrationState, VirtualMachineInstanceMigration, VmiStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  findCancellable,
  findMigrationStage,
  findMigrationVerdict,
  printProgress,
} from "./migration.ts";

type Status = NonNullable<VirtualMachineInstanceMigration["status"]>;

function migrationOf(uid: string, status: Status = {}): VirtualMachineInstanceMigration {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: { namespace: "blue", name: `m-${uid}`, uid },
    spec: { vmiName: "one" },
    status,
  };
}

function vmiOf(migrationState?: MigrationState, phase: VmiStatus["phase"] = "Running") {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { namespace: "blue", name: "one" },
    spec: { domain: {} },
    status: { phase, ...(migrationState !== undefined && { migrationState }) },
  };
}

const OLD = migrationOf("old", { phase: "Failed" });
const FIRST = { vm: undefined, vmi: vmiOf(), migrations: [OLD] };

function now(status: Status | undefined, vmi: ReturnType<typeof vmiOf> | undefined = vmiOf()) {
  const migrations = status === undefined ? [OLD] : [OLD, migrationOf("new", status)];
  return { vm: undefined, vmi, migrations };
}

const MB = 1_000_000;

describe("printProgress", () => {
  test.each([
    { progress: {}, want: "" },
    { progress: { dataTotalBytes: 200 * MB, dataRemainingBytes: 200 * MB }, want: "0 %" },
    {
      progress: {
        dataTotalBytes: 200 * MB,
        dataRemainingBytes: 50 * MB,
        memoryBytesPerSecond: 10 * MB,
      },
      want: "75 %, 10 MB/s, about 5 s left",
    },
    // A guest that writes faster than the transfer can have more remaining data than total data.
    { progress: { dataTotalBytes: 100, dataRemainingBytes: 200 }, want: "0 %" },
  ])('prints "$want"', ({ progress, want }) => {
    expect(printProgress(progress)).toBe(want);
  });
});

describe("findMigrationStage", () => {
  test("reports why the guest is paused on its target", () => {
    const held = { type: "GuestHeld", status: "True", message: "it has another tap" } as const;
    const status: Status = { phase: "Running", conditions: [held] };
    const stage = findMigrationStage(now(status), FIRST);
    expect(stage).toEqual({ phase: "Running", message: "it has another tap" });
  });

  test("describes the migration that the request created", () => {
    expect(findMigrationStage(now(undefined), FIRST)).toBeUndefined();
    expect(findMigrationStage(now({}), FIRST)).toEqual({ phase: "Pending" });
    expect(findMigrationStage(now({ phase: "Scheduling" }), FIRST)).toEqual({
      phase: "Scheduling",
    });
  });

  test("shows the progress of this migration only, and only while it runs", () => {
    const progress = { dataTotalBytes: 100, dataRemainingBytes: 50 };
    const withProgress = (migrationUid: string) => vmiOf({ migrationUid, progress });
    const running = { phase: "Running" } as const;
    const stage = { phase: "Running", message: "50 %" };
    expect(findMigrationStage(now(running, withProgress("new")), FIRST)).toEqual(stage);
    expect(findMigrationStage(now(running, withProgress("old")), FIRST)).toEqual(running);
    const paused = vmiOf({ migrationUid: "new", mode: "Paused", progress });
    expect(findMigrationStage(now(running, paused), FIRST)?.message).toMatch(
      /^50 %; the guest is paused/,
    );
    const done = { phase: "Succeeded" } as const;
    expect(findMigrationStage(now(done, withProgress("new")), FIRST)).toEqual(done);
  });
});

test("findMigrationStage reports why the target is not ready", () => {
  const failed = {
    name: "blue",
    podInterfaceName: "pod1",
    state: "Failed",
    message: "no",
  } as const;
  const vmi = vmiOf({ migrationUid: "new", targetAttachments: [failed] });
  expect(findMigrationStage(now({ phase: "PreparingTarget" }, vmi), FIRST)).toEqual({
    phase: "PreparingTarget",
    message: "interface blue: no",
  });
});

describe("findMigrationVerdict", () => {
  const failed = { phase: "Failed", migrationState: { failureReason: "no relay" } } as const;
  test.each([
    {
      name: "waits while the migration is requested",
      observed: now(undefined),
      want: { kind: "waiting" },
    },
    {
      name: "waits while the guest migrates",
      observed: now({ phase: "Running" }),
      want: { kind: "waiting" },
    },
    {
      name: "is done when the migration succeeded",
      observed: now({ phase: "Succeeded" }),
      want: { kind: "done" },
    },
    {
      name: "reports the failure reason",
      observed: now(failed),
      want: { kind: "failing", reason: "no relay" },
    },
    {
      name: "refers to the events if no failure reason is set",
      observed: now({ phase: "Failed" }),
      want: { kind: "failing", reason: "migration m-new failed; see its events" },
    },
    {
      name: "fails if the VM stops before the migration exists",
      observed: now(undefined, vmiOf(undefined, "Succeeded")),
      want: { kind: "failing", reason: "the VM has stopped" },
    },
  ])("$name", ({ observed, want }) => {
    expect(findMigrationVerdict(observed, FIRST)).toEqual(want);
  });

  test("reports a deleted migration as canceled", () => {
    const { metadata, ...rest } = migrationOf("new", { phase: "Failed" });
    const deleted = { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    const observed = { ...now(undefined), migrations: [{ ...rest, metadata: deleted }] };
    const reason = "it was canceled";
    expect(findMigrationVerdict(observed, FIRST)).toEqual({ kind: "failing", reason });
  });
});

test("findCancellable returns only unfinished migrations of the VM", () => {
  const other = { ...migrationOf("other"), spec: { vmiName: "two" } };
  const going = migrationOf("going", { phase: "Running" });
  expect(findCancellable([OLD, other, going], "one")).toEqual([going]);
});
