// SPDX-License-Identifier: Apache-2.0
// What do VMI and migration say after each step, and what do events tell?
import type { MigrationState, VirtualMachineInstance } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  aGuest,
  aMigration,
  aTarget,
  NOW,
  openFacts,
  someFacts,
} from "../../testing/migration-facts.ts";
import type { Decision } from "./decision.ts";
import { findMigrationState } from "./facts.ts";
import { listMigrationEvents, buildMigrationStatus } from "./migration-status.ts";
import { labelChanges, buildVmiFields } from "./vmi-status.ts";

const STARTED = { startTimestamp: NOW };
const LISTENS = { targetNodeAddress: "192.0.2.2", targetDirectMigrationNodePorts: { "1": 0 } };
const FAIL: Decision = { kind: "fail", why: "no way" };

describe("the VMI", () => {
  test("is told of both pods in one write", () => {
    const facts = someFacts({ targetPod: aTarget() });
    expect(buildVmiFields(facts, { kind: "open" })).toMatchObject({
      migrationState: {
        migrationUid: "m1",
        sourceNode: "node1",
        targetNode: "node2",
        targetPod: aTarget().metadata.name,
      },
      activePods: { "pod-uid": "node1", "target-uid": "node2" },
    });
  });

  test.each<{ name: string; course: Decision; want: object }>([
    {
      name: "the guest has come",
      course: { kind: "succeed" },
      want: {
        migrationState: { completed: true, endTimestamp: NOW },
        nodeName: "node2",
        activePods: { "target-uid": "node2" },
      },
    },
    {
      name: "the guest has stayed",
      course: FAIL,
      want: {
        migrationState: { completed: true, failed: true, failureReason: "no way" },
        activePods: { "pod-uid": "node1" },
      },
    },
    {
      name: "it is to end",
      course: { kind: "abort", why: "x" },
      want: { migrationState: { abortRequested: true } },
    },
  ])("is told that $name, and what was of use on the way goes", ({ course, want }) => {
    const told = buildVmiFields(openFacts(STARTED), course);
    expect(told).toMatchObject(want);
    const isOver = told.migrationState?.completed === true;
    expect(told.migrationState?.targetAttachments === undefined).toBe(isOver);
  });

  test("is told once when the source's pod was found to have ended", () => {
    const before = { ...STARTED, sourceEndedTimestamp: "2026-01-01T00:00:00.000Z" };
    const endOf = (state: MigrationState) => {
      const facts = openFacts(state);
      const guest = facts.guest && { ...facts.guest, pod: undefined };
      return buildVmiFields({ ...facts, guest }, { kind: "goOn" }).migrationState
        ?.sourceEndedTimestamp;
    };
    expect([endOf(STARTED), endOf(before)]).toEqual([NOW, before.sourceEndedTimestamp]);
  });

  test.each<{ name: string; course: Decision }>([
    { name: "before both nodes were told", course: FAIL },
    { name: "while it waits", course: { kind: "wait" } },
    { name: "while the pod is made", course: { kind: "begin" } },
  ])("is told nothing $name", ({ course }) => {
    expect(buildVmiFields(someFacts(), course)).toEqual({});
  });

  const TARGET = "kubevirt.io/migrationTargetNodeName";
  const HERE = "kubevirt.io/nodeName";
  const OPEN = { migrationUid: "m1", targetNode: "node2" };
  const labelled = (state: MigrationState, labels: object): VirtualMachineInstance => {
    const vmi = aGuest({ migrationState: state });
    return { ...vmi, metadata: { ...vmi.metadata, labels: labels as Record<string, string> } };
  };
  test.each([
    { name: "it is opened", vmi: labelled(OPEN, {}), want: { [TARGET]: "node2" } },
    { name: "it is open", vmi: labelled(OPEN, { [TARGET]: "node2" }), want: {} },
    {
      name: "it is closed",
      vmi: labelled({ ...OPEN, completed: true }, { [TARGET]: "node2" }),
      want: { [TARGET]: null, [HERE]: "node1" },
    },
    { name: "there is none", vmi: aGuest(), want: {} },
  ])("its labels, when $name", ({ vmi, want }) => {
    expect(labelChanges(vmi)).toEqual(want);
  });
});

describe("the migration", () => {
  test.each<{
    name: string;
    course: Decision;
    state?: MigrationState;
    failed?: true;
    want: string;
  }>([
    { name: "it waits", course: { kind: "wait" }, want: "Pending" },
    { name: "its pod was made", course: { kind: "begin" }, want: "Scheduling" },
    { name: "its pod was refused", course: { kind: "begin" }, failed: true, want: "Pending" },
    { name: "its pod is not ready", course: { kind: "schedule" }, want: "Scheduling" },
    { name: "its pod is ready", course: { kind: "open" }, want: "Scheduled" },
    { name: "nodes were told", course: { kind: "open" }, state: {}, want: "PreparingTarget" },
    { name: "the target listens", course: { kind: "goOn" }, state: LISTENS, want: "TargetReady" },
    {
      name: "the target says only half",
      course: { kind: "goOn" },
      state: { targetNodeAddress: "192.0.2.2" },
      want: "PreparingTarget",
    },
    { name: "it is on its way", course: { kind: "goOn" }, state: STARTED, want: "Running" },
    { name: "it is to end", course: { kind: "abort", why: "x" }, state: STARTED, want: "Running" },
    { name: "it has failed", course: FAIL, want: "Failed" },
    { name: "it has come", course: { kind: "succeed" }, state: STARTED, want: "Succeeded" },
    {
      name: "it was closed as failed",
      course: { kind: "closed" },
      state: { failed: true },
      want: "Failed",
    },
    {
      name: "it was closed",
      course: { kind: "closed" },
      state: { completed: true },
      want: "Succeeded",
    },
  ])("$name: $want", ({ course, state, failed, want }) => {
    const failures = failed === true ? [{ step: "createTargetPod", message: "no" } as const] : [];
    const told = { migration: aMigration("Pending"), course, state, failures, now: NOW };
    expect(buildMigrationStatus(told).phase).toBe(want);
  });

  test("says when each phase was passed, also those that nobody saw", () => {
    const migration = { ...aMigration("Scheduled") };
    const told = { course: { kind: "goOn" } as const, state: STARTED, failures: [], now: NOW };
    const { phaseTransitionTimestamps: seen } = buildMigrationStatus({ migration, ...told });
    expect(seen?.map(({ phase }) => phase)).toEqual(["PreparingTarget", "TargetReady", "Running"]);
  });

  test("says why it has failed, whether its VMI was told of it or not", () => {
    const told = { migration: aMigration("Pending"), course: FAIL, failures: [], now: NOW };
    const reason = (state: MigrationState | undefined) =>
      buildMigrationStatus({ ...told, state }).migrationState?.failureReason;
    expect(reason(undefined)).toBe("no way");
    expect(reason({ failed: true, failureReason: "as told" })).toBe("as told");
  });

  test("says that a quota keeps its pod from being made, as long as it does", () => {
    const message = 'pods "x" is forbidden: exceeded quota: small';
    const failures = [{ step: "createTargetPod", message } as const];
    const told = { migration: aMigration("Pending"), course: { kind: "begin" } as const, now: NOW };
    const { conditions } = buildMigrationStatus({ ...told, state: undefined, failures });
    expect(conditions).toEqual([
      {
        type: "migrationRejectedByResourceQuota",
        status: "True",
        reason: "ExceededQuota",
        message,
        lastTransitionTime: NOW,
      },
    ]);
    const migration = {
      ...aMigration(),
      status: { phase: "Pending" as const, conditions: conditions ?? [] },
    };
    const next = buildMigrationStatus({ ...told, migration, state: undefined, failures: [] });
    expect(next.conditions).toEqual([]);
  });

  test("says that it is to end, and why, also afterwards", () => {
    const course = { kind: "abort", why: "too slow" } as const;
    const told = { migration: aMigration("Running"), course, failures: [], now: NOW };
    const first = buildMigrationStatus({ ...told, state: STARTED });
    expect(first.conditions).toMatchObject([
      { type: "migrationAbortRequested", status: "True", message: "too slow" },
    ]);
    const migration = { ...aMigration(), status: first };
    const state = { ...STARTED, abortRequested: true };
    const next = buildMigrationStatus({ ...told, migration, state, course: { kind: "goOn" } });
    expect(next.conditions).toEqual(first.conditions);
  });
});

describe("events", () => {
  const notesOf = (course: Decision, facts = openFacts(STARTED)): readonly string[] => {
    const before = aMigration("TargetReady");
    const state = findMigrationState(facts);
    const status = buildMigrationStatus({
      migration: before,
      course,
      state,
      failures: [],
      now: NOW,
    });
    return listMigrationEvents({ before, status, course, facts }).map(
      ({ on, note }) => `${on} ${note.type} ${note.reason}: ${note.message}`,
    );
  };

  test("tell why a guest has stayed, on both objects", () => {
    expect(notesOf(FAIL)).toEqual([
      "migration Warning FailedMigration: no way",
      "vmi Warning FailedMigration: no way",
    ]);
  });

  test("tell that a migration is to end", () => {
    const notes = notesOf({ kind: "abort", why: "too slow" });
    expect(notes.at(-1)).toBe(
      "vmi Warning MigrationAbortRequested: the migration is ended before its time: too slow",
    );
  });
});
