// SPDX-License-Identifier: Apache-2.0
// What is told of a migration on its own object: its phase, since when, why it waits, and in the end all that the VMI told.
import {
  MIGRATION_PHASES,
  type MigrationState,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { withTimes, type Conditions, type NewCondition } from "../../status/conditions.ts";
import type { StepFailure } from "../../status/step-failure.ts";
import type { Course } from "./course.ts";
import { ABORT_REQUESTED } from "./facts.ts";
import { heldCondition } from "./held.ts";

/** The status of a migration. */
export type MigrationStatus = NonNullable<VirtualMachineInstanceMigration["status"]>;
/** Where it is. */
export type MigrationPhase = NonNullable<MigrationStatus["phase"]>;

const ORDER: readonly MigrationPhase[] = MIGRATION_PHASES;

/** Source: KubeVirt VirtualMachineInstanceMigrationRejectedByResourceQuota. */
const REJECTED_BY_QUOTA = "migrationRejectedByResourceQuota";

/** What a migration's status is told from. */
export interface ToldOf {
  readonly migration: VirtualMachineInstanceMigration;
  readonly course: Course;
  /** As the VMI has it after this pass. */
  readonly state: MigrationState | undefined;
  /** Steps that the API server refused. */
  readonly failures: readonly StepFailure[];
  /** RFC 3339. */
  readonly now: string;
}

function phaseOfOpen({ state }: ToldOf): MigrationPhase {
  if (state === undefined) return "Scheduled";
  if (state.startTimestamp !== undefined) return "Running";
  const { targetNodeAddress, targetDirectMigrationNodePorts: ports = {} } = state;
  const isReady = targetNodeAddress !== undefined && Object.keys(ports).length > 0;
  return isReady ? "TargetReady" : "PreparingTarget";
}

function phaseOfClosed({ state, migration }: ToldOf): MigrationPhase {
  if (state === undefined) return migration.status?.phase ?? "Pending";
  return state.failed === true ? "Failed" : "Succeeded";
}

/** What each course comes to. */
const PHASES: Readonly<Record<Course["kind"], (told: ToldOf) => MigrationPhase>> = {
  wait: () => "Pending",
  begin: ({ failures }) => (failures.length === 0 ? "Scheduling" : "Pending"),
  schedule: () => "Scheduling",
  open: phaseOfOpen,
  goOn: phaseOfOpen,
  abort: phaseOfOpen,
  fail: () => "Failed",
  lose: () => "Failed",
  succeed: () => "Succeeded",
  closed: phaseOfClosed,
};

/** Those that were passed since the last word have been seen now. */
function passedTo(
  before: MigrationPhase | undefined,
  phase: MigrationPhase,
): readonly MigrationPhase[] {
  if (phase === "Failed") return [phase];
  const from = before === undefined ? -1 : ORDER.indexOf(before);
  return ORDER.slice(from + 1, ORDER.indexOf(phase) + 1);
}

function transitionsOf(
  { migration, now }: ToldOf,
  phase: MigrationPhase,
): MigrationStatus["phaseTransitionTimestamps"] {
  const { phase: current, phaseTransitionTimestamps: seen = [] } = migration.status ?? {};
  const before = current === "" ? undefined : current;
  if (before === phase) return seen;
  const passed = passedTo(before, phase).filter((each) => !seen.some((one) => one.phase === each));
  return [...seen, ...passed.map((each) => ({ phase: each, phaseTransitionTimestamp: now }))];
}

function abortCondition({ course, migration, state }: ToldOf): readonly NewCondition[] {
  const stored = migration.status?.conditions?.find(({ type }) => type === ABORT_REQUESTED);
  if (stored !== undefined) return [stored];
  if (course.kind === "abort") {
    return [{ type: ABORT_REQUESTED, status: "True", message: course.why }];
  }
  const isCancelled = migration.metadata.deletionTimestamp !== undefined;
  const isAborted = state?.abortRequested === true;
  return isCancelled || isAborted ? [{ type: ABORT_REQUESTED, status: "True" }] : [];
}

function quotaCondition({ failures }: ToldOf): readonly NewCondition[] {
  const refused = failures.find(
    ({ step, message }) => step === "createTargetPod" && message.includes("exceeded quota"),
  );
  if (refused === undefined) return [];
  const { message } = refused;
  return [{ type: REJECTED_BY_QUOTA, status: "True", reason: "ExceededQuota", message }];
}

function conditionsOf(told: ToldOf): Conditions {
  const isOver = told.state?.completed === true;
  const held = isOver ? [] : heldCondition(told.state);
  const all = [...abortCondition(told), ...quotaCondition(told), ...held];
  return withTimes(all, told.migration.status?.conditions, told.now);
}

/** All that the VMI told; of one that the VMI was never told of, why it has failed. */
function endOf({ state, course, migration, now }: ToldOf): Pick<MigrationStatus, "migrationState"> {
  if (state !== undefined) return { migrationState: state };
  if (course.kind !== "fail" && course.kind !== "lose") return {};
  const { uid: migrationUid = "" } = migration.metadata;
  const failed = { completed: true, failed: true, failureReason: course.why, endTimestamp: now };
  return { migrationState: { migrationUid, ...failed } };
}

/** Its status after a pass. */
export function migrationStatus(told: ToldOf): MigrationStatus {
  const { migration } = told;
  const phase = PHASES[told.course.kind](told);
  const isOver = phase === "Succeeded" || phase === "Failed";
  const conditions = conditionsOf(told);
  const before = migration.status ?? {};
  const transitions = transitionsOf(told, phase);
  return {
    phase,
    ...(transitions === undefined ? {} : { phaseTransitionTimestamps: transitions }),
    ...(conditions.length === 0 && before.conditions === undefined ? {} : { conditions }),
    ...(isOver ? endOf(told) : {}),
  };
}
