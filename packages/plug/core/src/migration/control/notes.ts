// SPDX-License-Identifier: Apache-2.0
// What do events tell of a migration, on its own object and on its VMI? Source: KubeVirt pkg/virt-controller/watch/controller, whose
// reasons these are.
import type { VirtualMachineInstanceMigration } from "@patchbay/api";
import type { Course } from "./course.ts";
import { ABORT_REQUESTED, stateIn, type MigrationFacts } from "./facts.ts";
import { GUEST_HELD } from "./held.ts";
import type { MigrationPhase, MigrationStatus } from "./tell-migration.ts";

/** One event. */
export interface MigrationNote {
  readonly on: "migration" | "vmi";
  readonly note: {
    readonly type: "Normal" | "Warning";
    readonly reason: string;
    readonly message: string;
  };
}

/** A pass over a migration, and what it was before. */
interface Passed {
  readonly before: VirtualMachineInstanceMigration;
  readonly status: MigrationStatus;
  readonly course: Course;
  readonly facts: MigrationFacts;
}

function both(note: MigrationNote["note"]): readonly MigrationNote[] {
  return [
    { on: "migration", note },
    { on: "vmi", note },
  ];
}

/** What was told of the way. */
interface Way {
  readonly name: string;
  readonly targetPod: string;
  readonly sourceNode: string;
  readonly targetNode: string;
  readonly why: string;
}

const REACHED: Readonly<Partial<Record<MigrationPhase, (way: Way) => readonly MigrationNote[]>>> = {
  Scheduling: ({ name }) => {
    const message = `migration ${name} has a target pod`;
    return [{ on: "migration", note: { type: "Normal", reason: "SuccessfulCreate", message } }];
  },
  PreparingTarget: ({ targetPod, targetNode }) => {
    const message = `target pod ${targetPod} is ready: node ${targetNode} prepares it for the guest`;
    return both({ type: "Normal", reason: "SuccessfulHandOver", message });
  },
  Running: ({ sourceNode, targetNode }) => {
    const message = `the guest moves from node ${sourceNode} to node ${targetNode}`;
    return both({ type: "Normal", reason: "Migrating", message });
  },
  Succeeded: ({ sourceNode, targetNode }) => {
    const message = `the guest has moved from node ${sourceNode} to node ${targetNode}`;
    return both({ type: "Normal", reason: "SuccessfulMigration", message });
  },
  Failed: ({ why }) => {
    return both({ type: "Warning", reason: "FailedMigration", message: why });
  },
};

function whyOf(course: Course, told: string | undefined): string {
  if (course.kind === "fail" || course.kind === "lose") return course.why;
  return told ?? "source node reported migration failed";
}

function wayOf({ before, course, facts }: Passed): Way {
  const { targetPod = "", sourceNode = "", targetNode = "", failureReason } = stateIn(facts) ?? {};
  const { name } = before.metadata;
  return { name, targetPod, sourceNode, targetNode, why: whyOf(course, failureReason) };
}

/** The condition of that type, where it was not there before. */
function newCondition({ before, status }: Passed, type: string) {
  const had = before.status?.conditions?.some((each) => each.type === type) === true;
  return had ? undefined : status.conditions?.find((each) => each.type === type);
}

/** Asked for once, and then waited for. */
function abortNotes(passed: Passed): readonly MigrationNote[] {
  const { course } = passed;
  if (course.kind !== "abort" || newCondition(passed, ABORT_REQUESTED) === undefined) return [];
  const message = `the migration is ended before its time: ${course.why}`;
  return both({ type: "Warning", reason: "MigrationAbortRequested", message });
}

function heldNotes(passed: Passed): readonly MigrationNote[] {
  const { message } = newCondition(passed, GUEST_HELD) ?? {};
  return message === undefined ? [] : both({ type: "Warning", reason: GUEST_HELD, message });
}

/** What has happened since the last word, in order. */
export function migrationNotes(passed: Passed): readonly MigrationNote[] {
  const { before, status } = passed;
  const way = wayOf(passed);
  const told = before.status?.phaseTransitionTimestamps ?? [];
  const reached = (status.phaseTransitionTimestamps ?? [])
    .map(({ phase }) => phase)
    .filter((phase) => !told.some((each) => each.phase === phase));
  const steps = reached.flatMap((phase) => REACHED[phase]?.(way) ?? []);
  return [...steps, ...heldNotes(passed), ...abortNotes(passed)];
}
