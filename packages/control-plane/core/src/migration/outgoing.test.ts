// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { planOutgoing, type OutgoingFacts } from "./outgoing.ts";

const RUNS = { name: "d", uuid: "u", state: "running", persistent: true } as const;
const LEFTOVER = { ...RUNS, state: "shutoff", move: "left" } as const;
const DELETING = { ...RUNS, state: "paused", move: "leaving" } as const;
const NO_JOB = { state: "none" } as const;
const OUT = { state: "running", move: "out" } as const;
const READY = { targetNodeAddress: "192.0.2.2", targetDirectMigrationNodePorts: { "40000": 0 } };
const START = "2026-01-01T00:00:00Z";

function stepsOf(
  state: object,
  change: Partial<Omit<OutgoingFacts, "migration">> = {},
): readonly string[] {
  const steps = planOutgoing({
    migration: { migrationUid: "m", ...state },
    domain: RUNS,
    job: NO_JOB,
    hasRelay: false,
    call: undefined,
    isAcknowledged: false,
    isStalled: false,
    isLate: false,
    ...change,
  });
  return steps.map((step) => {
    if (step.kind === "wait") return `wait ${step.for}`;
    return step.kind === "reportFailed" ? `failed: ${step.reason}` : step.kind;
  });
}

const STAYED = ["stopRelay", "announceMacs"];

test.each([
  { name: "the target has not reported yet", state: {}, want: ["wait target"] },
  {
    name: "the target has reported",
    state: READY,
    want: ["startRelay", "announceMacs", "reportStart", "migrate", "wait call"],
  },
  {
    name: "the relay was started by an earlier pass",
    state: READY,
    change: { hasRelay: true },
    want: ["announceMacs", "reportStart", "migrate", "wait call"],
  },
  {
    name: "the call is in progress",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, call: "running" as const },
    want: ["wait call"],
  },
  {
    name: "a crashed process made the call, which continues",
    state: { ...READY, startTimestamp: START },
    change: { job: OUT },
    want: ["wait call"],
  },
  {
    name: "a crashed process made the call, and the guest is here",
    state: { ...READY, startTimestamp: START },
    want: ["announceMacs", "failed: it ended, and the guest is here"],
  },
  {
    name: "the guest is paused for the last iteration",
    state: { ...READY, startTimestamp: START },
    change: { domain: DELETING, job: OUT },
    want: ["wait call"],
  },
  {
    name: "the guest is paused for the last iteration, and the call has not returned",
    state: { ...READY, startTimestamp: START },
    change: { domain: DELETING, call: "running" as const },
    want: ["wait call"],
  },
  {
    name: "the guest is paused for the last iteration, and the job has ended",
    state: { ...READY, startTimestamp: START },
    change: { domain: DELETING, hasRelay: true, call: { failure: "the connection was lost" } },
    want: [
      ...STAYED,
      "failed: its libvirt ended before the handover, and the guest continues here",
      "resume",
    ],
  },
  {
    name: "the guest is paused after the job has ended, and its stay was reported",
    state: { ...READY, startTimestamp: START, failed: true },
    change: { domain: DELETING },
    want: ["resume", "wait end"],
  },
  {
    name: "the call failed",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, call: { failure: "no way" } },
    want: [...STAYED, "failed: no way"],
  },
  {
    name: "the guest has migrated",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, domain: LEFTOVER, call: "arrived" as const },
    want: ["reportStopped", "wait handover"],
  },
  {
    name: "the guest has migrated, and this process has just started",
    state: { ...READY, startTimestamp: START },
    change: { domain: LEFTOVER },
    want: ["startRelay", "reportStopped", "wait handover"],
  },
  {
    name: "the target has received the report",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, domain: LEFTOVER, isAcknowledged: true },
    want: ["wait handover"],
  },
  {
    name: "the target received the report and now listens at another address",
    state: { ...READY, startTimestamp: START },
    change: { domain: LEFTOVER, isAcknowledged: true },
    want: ["startRelay", "reportStopped", "wait handover"],
  },
  {
    name: "the guest runs at the target",
    state: { ...READY, startTimestamp: START, targetNodeDomainReadyTimestamp: START },
    change: { hasRelay: true, domain: LEFTOVER, isAcknowledged: true },
    want: ["stopRelay", "wait end"],
  },
  {
    name: "the guest has migrated, and its launcher has ended",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, domain: undefined, call: "arrived" as const },
    want: ["reportStopped", "wait handover"],
  },
  {
    name: "the guest has migrated, and the abort comes too late",
    state: { ...READY, startTimestamp: START, abortRequested: true },
    change: { hasRelay: true, domain: LEFTOVER },
    want: ["reportLeft", "reportStopped", "wait handover"],
  },
  {
    name: "the late abort was reported, and the target has received the report",
    state: { ...READY, startTimestamp: START, abortRequested: true, sourceNodeDomainLeft: true },
    change: { hasRelay: true, domain: LEFTOVER, isAcknowledged: true },
    want: ["wait handover"],
  },
  {
    name: "an abort before any data was sent",
    state: { ...READY, abortRequested: true },
    want: ["announceMacs", "failed: it was cancelled"],
  },
  {
    name: "an abort during the migration",
    state: { ...READY, startTimestamp: START, abortRequested: true },
    change: { hasRelay: true, job: OUT, call: "running" as const },
    want: ["abort", "wait call"],
  },
  {
    name: "no progress for too long",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, job: OUT, call: "running" as const, isStalled: true },
    want: ["abort", "wait call"],
  },
  {
    name: "its timeout has passed, and the guest may be paused for the rest",
    state: { ...READY, startTimestamp: START, mode: "PreCopy" },
    change: { hasRelay: true, job: OUT, call: "running" as const, isLate: true },
    want: ["disrupt", "wait call"],
  },
  {
    name: "the guest is paused for the rest",
    state: { ...READY, startTimestamp: START, mode: "Paused" },
    change: { hasRelay: true, job: OUT, call: "running" as const, isLate: true },
    want: ["wait call"],
  },
  {
    name: "its timeout has passed, and it is canceled",
    state: { ...READY, startTimestamp: START, abortRequested: true },
    change: { hasRelay: true, job: OUT, call: "running" as const, isLate: true },
    want: ["abort", "wait call"],
  },
  {
    name: "the user has paused the guest",
    state: READY,
    change: { hasRelay: true, domain: { ...RUNS, state: "paused" } as const },
    want: ["announceMacs", "reportStart", "migrate", "wait call"],
  },
  {
    name: "the guest has shut down",
    state: { ...READY, startTimestamp: START },
    change: { hasRelay: true, domain: { ...RUNS, state: "shutoff" } as const },
    want: [...STAYED, "failed: the guest has ended"],
  },
  {
    name: "libvirt does not respond",
    state: READY,
    change: { domain: undefined },
    want: ["wait guest"],
  },
  { name: "the migration has failed", state: { ...READY, failed: true }, want: ["wait end"] },
])("$name", ({ state, change, want }) => {
  expect(stepsOf(state, change)).toEqual(want);
});

test("reports with the failure whether an abort was requested", () => {
  const facts = {
    job: NO_JOB,
    hasRelay: false,
    call: undefined,
    isAcknowledged: false,
    isStalled: false,
    isLate: false,
    domain: RUNS,
  };
  const isAborted = (abortRequested: boolean) =>
    planOutgoing({ ...facts, migration: { startTimestamp: START, abortRequested } }).at(-1);
  expect(isAborted(true)).toMatchObject({ kind: "reportFailed", isAborted: true });
  expect(isAborted(false)).toMatchObject({ kind: "reportFailed", isAborted: false });
});
