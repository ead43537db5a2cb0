// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { createPhaseRecorder, observeMigrationPhase, observeVmiPhase } from "./phases.ts";

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
type Times = Readonly<Record<string, number>>;

function statusOf(phase: string | undefined, times: Times) {
  const phaseTransitionTimestamps = Object.entries(times).map(([name, seconds]) => ({
    phase: name,
    phaseTransitionTimestamp: at(seconds),
  }));
  return { ...(phase !== undefined && { phase }), phaseTransitionTimestamps };
}

function vmi(phase: string | undefined, times: Times, metadata: object = {}) {
  return {
    metadata: { name: "a", creationTimestamp: at(100), ...metadata },
    status: statusOf(phase, times),
  } as unknown as VirtualMachineInstance;
}

const BETWEEN = "kubevirt_vmi_phase_transition_time_seconds";
const FROM_CREATION = "kubevirt_vmi_phase_transition_time_from_creation_seconds";
const FROM_DELETION = "kubevirt_vmi_phase_transition_time_from_deletion_seconds";
const OF_MIGRATION = "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds";

describe("observeVmiPhase", () => {
  test.each([
    {
      name: "from the last phase and from the creation",
      previous: vmi("Scheduled", { Scheduled: 103 }),
      current: vmi("Running", { Scheduled: 103, Running: 105.5 }),
      want: [
        { name: BETWEEN, labels: { phase: "Running", last_phase: "Scheduled" }, seconds: 2.5 },
        { name: FROM_CREATION, labels: { phase: "Running" }, seconds: 5.5 },
      ],
    },
    {
      name: "of the first phase",
      previous: vmi(undefined, {}),
      current: vmi("Pending", { Pending: 101 }),
      want: [{ name: FROM_CREATION, labels: { phase: "Pending" }, seconds: 1 }],
    },
    {
      name: "from the deletion",
      previous: vmi("Running", { Running: 105 }),
      current: vmi("Succeeded", { Running: 105, Succeeded: 120 }, { deletionTimestamp: at(118) }),
      want: [
        { name: BETWEEN, labels: { phase: "Succeeded", last_phase: "Running" }, seconds: 15 },
        { name: FROM_CREATION, labels: { phase: "Succeeded" }, seconds: 20 },
        { name: FROM_DELETION, labels: { phase: "Succeeded" }, seconds: 2 },
      ],
    },
    {
      name: "of a phase without a time: none",
      previous: vmi("Scheduled", { Scheduled: 103 }),
      current: vmi("Running", { Scheduled: 103 }),
      want: [],
    },
    {
      name: "of a phase that is resumed, such as Running after Unknown, not from the later phase",
      previous: vmi("Unknown", { Running: 105, Unknown: 200 }),
      current: vmi("Running", { Running: 105, Unknown: 200 }),
      want: [{ name: FROM_CREATION, labels: { phase: "Running" }, seconds: 5 }],
    },
    {
      name: "of an unchanged phase: none",
      previous: vmi("Running", { Running: 105 }),
      current: vmi("Running", { Running: 105 }),
      want: [],
    },
  ])("returns the time $name", ({ previous, current, want }) => {
    expect(observeVmiPhase(previous, current)).toEqual(want);
  });
});

test("observeMigrationPhase returns the time from the creation", () => {
  const migration = (phase: string, times: Times) =>
    ({
      metadata: { name: "m", creationTimestamp: at(100) },
      status: statusOf(phase, times),
    }) as unknown as VirtualMachineInstanceMigration;
  const running = migration("Running", { Running: 107 });
  const ended = migration("Succeeded", { Running: 107, Succeeded: 130 });
  expect(observeMigrationPhase(running, ended)).toEqual([
    { name: OF_MIGRATION, labels: { phase: "Succeeded" }, seconds: 30 },
  ]);
  expect(observeMigrationPhase(ended, ended)).toEqual([]);
});

test("the recorder adds each histogram once and passes observations on", () => {
  const seen: unknown[] = [];
  const record = createPhaseRecorder(({ name, buckets }) => {
    seen.push([name, buckets.length]);
    return (labels, seconds) => {
      seen.push([name, labels, seconds]);
    };
  });
  const names = [BETWEEN, FROM_CREATION, FROM_DELETION, OF_MIGRATION];
  expect(seen).toEqual(names.map((name) => [name, 18]));
  seen.length = 0;
  record([{ name: OF_MIGRATION, labels: { phase: "Failed" }, seconds: 3 }]);
  expect(seen).toEqual([[OF_MIGRATION, { phase: "Failed" }, 3]]);
});
