// SPDX-License-Identifier: Apache-2.0
import type { MigrationState, VirtualMachineInstanceMigration, VmiStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { findCancellable, migrationStage, migrationVerdict, printProgress } from "./migration.ts";

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

describe("how far it is", () => {
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
    // A guest that writes faster than its memory goes has more to send than it has.
    { progress: { dataTotalBytes: 100, dataRemainingBytes: 200 }, want: "0 %" },
  ])("$want", ({ progress, want }) => {
    expect(printProgress(progress)).toBe(want);
  });
});

describe("the stage", () => {
  test("says why the guest stands still at its target", () => {
    const held = { type: "GuestHeld", status: "True", message: "it has another tap" } as const;
    const status: Status = { phase: "Running", conditions: [held] };
    const stage = migrationStage(now(status), FIRST);
    expect(stage).toEqual({ phase: "Running", message: "it has another tap" });
  });

  test("is that of the migration that was not there before", () => {
    expect(migrationStage(now(undefined), FIRST)).toBeUndefined();
    expect(migrationStage(now({}), FIRST)).toEqual({ phase: "Pending" });
    expect(migrationStage(now({ phase: "Scheduling" }), FIRST)).toEqual({ phase: "Scheduling" });
  });

  test("says how far it is, of this migration and while it runs", () => {
    const progress = { dataTotalBytes: 100, dataRemainingBytes: 50 };
    const told = (migrationUid: string) => vmiOf({ migrationUid, progress });
    const running = { phase: "Running" } as const;
    const stage = { phase: "Running", message: "50 %" };
    expect(migrationStage(now(running, told("new")), FIRST)).toEqual(stage);
    expect(migrationStage(now(running, told("old")), FIRST)).toEqual(running);
    const paused = vmiOf({ migrationUid: "new", mode: "Paused", progress });
    expect(migrationStage(now(running, paused), FIRST)?.message).toMatch(/^50 %; it stands still/);
    const done = { phase: "Succeeded" } as const;
    expect(migrationStage(now(done, told("new")), FIRST)).toEqual(done);
  });
});

test("the stage says why the target is not ready", () => {
  const failed = {
    name: "blue",
    podInterfaceName: "pod1",
    state: "Failed",
    message: "no",
  } as const;
  const vmi = vmiOf({ migrationUid: "new", targetAttachments: [failed] });
  expect(migrationStage(now({ phase: "PreparingTarget" }, vmi), FIRST)).toEqual({
    phase: "PreparingTarget",
    message: "interface blue: no",
  });
});

describe("the verdict", () => {
  const failed = { phase: "Failed", migrationState: { failureReason: "no relay" } } as const;
  test.each([
    { name: "asked for", seen: now(undefined), want: { kind: "waiting" } },
    { name: "on its way", seen: now({ phase: "Running" }), want: { kind: "waiting" } },
    { name: "there", seen: now({ phase: "Succeeded" }), want: { kind: "done" } },
    { name: "failed", seen: now(failed), want: { kind: "failing", reason: "no relay" } },
    {
      name: "failed, nobody says why",
      seen: now({ phase: "Failed" }),
      want: { kind: "failing", reason: "migration m-new has failed; its events say why" },
    },
    {
      name: "a VM that stops before it is made",
      seen: now(undefined, vmiOf(undefined, "Succeeded")),
      want: { kind: "failing", reason: "the VM has stopped" },
    },
  ])("of one that is $name", ({ seen, want }) => {
    expect(migrationVerdict(seen, FIRST)).toEqual(want);
  });

  test("of one that was deleted is that it was cancelled", () => {
    const { metadata, ...rest } = migrationOf("new", { phase: "Failed" });
    const deleted = { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    const seen = { ...now(undefined), migrations: [{ ...rest, metadata: deleted }] };
    const reason = "it was cancelled";
    expect(migrationVerdict(seen, FIRST)).toEqual({ kind: "failing", reason });
  });
});

test("only a migration of that VM that goes on can be cancelled", () => {
  const other = { ...migrationOf("other"), spec: { vmiName: "two" } };
  const going = migrationOf("going", { phase: "Running" });
  expect(findCancellable([OLD, other, going], "one")).toEqual([going]);
});
