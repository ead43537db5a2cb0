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
  test("records both pods in one write", () => {
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

  test.each<{ name: string; decision: Decision; want: object }>([
    {
      name: "the migration succeeded",
      decision: { kind: "succeed" },
      want: {
        migrationState: { completed: true, endTimestamp: NOW },
        nodeName: "node2",
        activePods: { "target-uid": "node2" },
      },
    },
    {
      name: "the migration failed",
      decision: FAIL,
      want: {
        migrationState: { completed: true, failed: true, failureReason: "no way" },
        activePods: { "pod-uid": "node1" },
      },
    },
    {
      name: "an abort is requested",
      decision: { kind: "abort", why: "x" },
      want: { migrationState: { abortRequested: true } },
    },
  ])(
    "records that $name, and drops fields that are no longer used",
    ({ decision: decision, want }) => {
      const reported = buildVmiFields(openFacts(STARTED), decision);
      expect(reported).toMatchObject(want);
      const isOver = reported.migrationState?.completed === true;
      expect(reported.migrationState?.targetAttachments === undefined).toBe(isOver);
    },
  );

  test("records once when the source pod was found to have ended", () => {
    const before = { ...STARTED, sourceEndedTimestamp: "2026-01-01T00:00:00.000Z" };
    const findOutcome = (state: MigrationState) => {
      const facts = openFacts(state);
      const guest = facts.guest && { ...facts.guest, pod: undefined };
      return buildVmiFields({ ...facts, guest }, { kind: "continue" }).migrationState
        ?.sourceEndedTimestamp;
    };
    expect([findOutcome(STARTED), findOutcome(before)]).toEqual([NOW, before.sourceEndedTimestamp]);
  });

  test.each<{ name: string; decision: Decision }>([
    { name: "before the VMI has the migration", decision: FAIL },
    { name: "while the migration waits", decision: { kind: "wait" } },
    { name: "while the pod is created", decision: { kind: "begin" } },
  ])("does not change $name", ({ decision: decision }) => {
    expect(buildVmiFields(someFacts(), decision)).toEqual({});
  });

  const TARGET = "kubevirt.io/migrationTargetNodeName";
  const HERE = "kubevirt.io/nodeName";
  const OPEN = { migrationUid: "m1", targetNode: "node2" };
  const labelled = (state: MigrationState, labels: object): VirtualMachineInstance => {
    const vmi = aGuest({ migrationState: state });
    return { ...vmi, metadata: { ...vmi.metadata, labels: labels as Record<string, string> } };
  };
  test.each([
    { name: "a migration is opened", vmi: labelled(OPEN, {}), want: { [TARGET]: "node2" } },
    { name: "a migration is open", vmi: labelled(OPEN, { [TARGET]: "node2" }), want: {} },
    {
      name: "a migration is closed",
      vmi: labelled({ ...OPEN, completed: true }, { [TARGET]: "node2" }),
      want: { [TARGET]: null, [HERE]: "node1" },
    },
    { name: "no migration exists", vmi: aGuest(), want: {} },
  ])("gets label changes when $name", ({ vmi, want }) => {
    expect(labelChanges(vmi)).toEqual(want);
  });
});

describe("the migration", () => {
  test.each<{
    name: string;
    decision: Decision;
    state?: MigrationState;
    failed?: true;
    want: string;
  }>([
    { name: "it waits", decision: { kind: "wait" }, want: "Pending" },
    { name: "its pod was created", decision: { kind: "begin" }, want: "Scheduling" },
    { name: "its pod was rejected", decision: { kind: "begin" }, failed: true, want: "Pending" },
    { name: "its pod is not ready", decision: { kind: "schedule" }, want: "Scheduling" },
    { name: "its pod is ready", decision: { kind: "open" }, want: "Scheduled" },
    { name: "nodes were told", decision: { kind: "open" }, state: {}, want: "PreparingTarget" },
    {
      name: "the target listens",
      decision: { kind: "continue" },
      state: LISTENS,
      want: "TargetReady",
    },
    {
      name: "the target says only half",
      decision: { kind: "continue" },
      state: { targetNodeAddress: "192.0.2.2" },
      want: "PreparingTarget",
    },
    { name: "it is on its way", decision: { kind: "continue" }, state: STARTED, want: "Running" },
    {
      name: "its abort is requested",
      decision: { kind: "abort", why: "x" },
      state: STARTED,
      want: "Running",
    },
    { name: "it has failed", decision: FAIL, want: "Failed" },
    { name: "it has succeeded", decision: { kind: "succeed" }, state: STARTED, want: "Succeeded" },
    {
      name: "it was closed after a failure",
      decision: { kind: "closed" },
      state: { failed: true },
      want: "Failed",
    },
    {
      name: "it was closed",
      decision: { kind: "closed" },
      state: { completed: true },
      want: "Succeeded",
    },
  ])("$name: $want", ({ decision: decision, state, failed, want }) => {
    const failures = failed === true ? [{ step: "createTargetPod", message: "no" } as const] : [];
    const reported = {
      migration: aMigration("Pending"),
      decision: decision,
      state,
      failures,
      now: NOW,
    };
    expect(buildMigrationStatus(reported).phase).toBe(want);
  });

  test("records a time for each passed phase, including unobserved ones", () => {
    const migration = { ...aMigration("Scheduled") };
    const reported = {
      decision: { kind: "continue" } as const,
      state: STARTED,
      failures: [],
      now: NOW,
    };
    const { phaseTransitionTimestamps: observed } = buildMigrationStatus({
      migration,
      ...reported,
    });
    expect(observed?.map(({ phase }) => phase)).toEqual([
      "PreparingTarget",
      "TargetReady",
      "Running",
    ]);
  });

  test("reports why it failed, even if the VMI never recorded the migration", () => {
    const reported = { migration: aMigration("Pending"), decision: FAIL, failures: [], now: NOW };
    const reason = (state: MigrationState | undefined) =>
      buildMigrationStatus({ ...reported, state }).migrationState?.failureReason;
    expect(reason(undefined)).toBe("no way");
    expect(reason({ failed: true, failureReason: "as told" })).toBe("as told");
  });

  test("reports a quota that blocks its pod", () => {
    const message = 'pods "x" is forbidden: exceeded quota: small';
    const failures = [{ step: "createTargetPod", message } as const];
    const reported = {
      migration: aMigration("Pending"),
      decision: { kind: "begin" } as const,
      now: NOW,
    };
    const { conditions } = buildMigrationStatus({ ...reported, state: undefined, failures });
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
    const next = buildMigrationStatus({ ...reported, migration, state: undefined, failures: [] });
    expect(next.conditions).toEqual([]);
  });

  test("reports the abort and its cause, also afterward", () => {
    const decision = { kind: "abort", why: "too slow" } as const;
    const reported = {
      migration: aMigration("Running"),
      decision: decision,
      failures: [],
      now: NOW,
    };
    const first = buildMigrationStatus({ ...reported, state: STARTED });
    expect(first.conditions).toMatchObject([
      { type: "migrationAbortRequested", status: "True", message: "too slow" },
    ]);
    const migration = { ...aMigration(), status: first };
    const state = { ...STARTED, abortRequested: true };
    const next = buildMigrationStatus({
      ...reported,
      migration,
      state,
      decision: { kind: "continue" },
    });
    expect(next.conditions).toEqual(first.conditions);
  });
});

describe("events", () => {
  const listNotes = (decision: Decision, facts = openFacts(STARTED)): readonly string[] => {
    const before = aMigration("TargetReady");
    const state = findMigrationState(facts);
    const status = buildMigrationStatus({
      migration: before,
      decision,
      state,
      failures: [],
      now: NOW,
    });
    return listMigrationEvents({ before, status, decision, facts }).map(
      ({ on, note }) => `${on} ${note.type} ${note.reason}: ${note.message}`,
    );
  };

  test("report on both objects why a guest was not migrated", () => {
    expect(listNotes(FAIL)).toEqual([
      "migration Warning FailedMigration: no way",
      "vmi Warning FailedMigration: no way",
    ]);
  });

  test("report that a migration is being aborted", () => {
    const notes = listNotes({ kind: "abort", why: "too slow" });
    expect(notes.at(-1)).toBe(
      "vmi Warning MigrationAbortRequested: the migration is ended before its time: too slow",
    );
  });
});
