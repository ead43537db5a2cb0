// SPDX-License-Identifier: Apache-2.0
import {
  MIGRATION_PHASES,
  type MigrationState,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import {
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "../../status/conditions.ts";
import type { StepFailure } from "../../status/step-failure.ts";
import type { Decision } from "./decision.ts";
import { ABORT_REQUESTED, findMigrationState, type MigrationFacts } from "./facts.ts";
import { heldCondition, GUEST_HELD_CONDITION } from "../incoming.ts";

type MigrationStatus = NonNullable<VirtualMachineInstanceMigration["status"]>;
type MigrationPhase = NonNullable<MigrationStatus["phase"]>;

const PHASE_ORDER: readonly MigrationPhase[] = MIGRATION_PHASES;

/** Source: KubeVirt VirtualMachineInstanceMigrationRejectedByResourceQuota. */
const REJECTED_BY_QUOTA = "migrationRejectedByResourceQuota";

interface MigrationStatusFacts {
  readonly migration: VirtualMachineInstanceMigration;
  readonly course: Decision;
  readonly state: MigrationState | undefined;
  readonly failures: readonly StepFailure[];
  /** RFC 3339. */
  readonly now: string;
}

function openPhase({ state }: MigrationStatusFacts): MigrationPhase {
  if (state === undefined) return "Scheduled";
  if (state.startTimestamp !== undefined) return "Running";
  const { targetNodeAddress, targetDirectMigrationNodePorts: ports = {} } = state;
  const isReady = targetNodeAddress !== undefined && Object.keys(ports).length > 0;
  return isReady ? "TargetReady" : "PreparingTarget";
}

function closedPhase({ state, migration }: MigrationStatusFacts): MigrationPhase {
  if (state === undefined) return migration.status?.phase ?? "Pending";
  return state.failed === true ? "Failed" : "Succeeded";
}

const PHASE_BY_DECISION: Readonly<
  Record<Decision["kind"], (told: MigrationStatusFacts) => MigrationPhase>
> = {
  wait: () => "Pending",
  begin: ({ failures }) => (failures.length === 0 ? "Scheduling" : "Pending"),
  schedule: () => "Scheduling",
  open: openPhase,
  goOn: openPhase,
  abort: openPhase,
  fail: () => "Failed",
  lose: () => "Failed",
  succeed: () => "Succeeded",
  closed: closedPhase,
};

/** Phases that were skipped since the last status count as passed now. */
function passedPhases(
  before: MigrationPhase | undefined,
  phase: MigrationPhase,
): readonly MigrationPhase[] {
  if (phase === "Failed") return [phase];
  const from = before === undefined ? -1 : PHASE_ORDER.indexOf(before);
  return PHASE_ORDER.slice(from + 1, PHASE_ORDER.indexOf(phase) + 1);
}

function phaseTransitions(
  { migration, now }: MigrationStatusFacts,
  phase: MigrationPhase,
): MigrationStatus["phaseTransitionTimestamps"] {
  const { phase: current, phaseTransitionTimestamps: seen = [] } = migration.status ?? {};
  const before = current === "" ? undefined : current;
  if (before === phase) return seen;
  const passed = passedPhases(before, phase).filter(
    (each) => !seen.some((one) => one.phase === each),
  );
  return [...seen, ...passed.map((each) => ({ phase: each, phaseTransitionTimestamp: now }))];
}

function abortCondition({
  course,
  migration,
  state,
}: MigrationStatusFacts): readonly NewCondition[] {
  const stored = migration.status?.conditions?.find(({ type }) => type === ABORT_REQUESTED);
  if (stored !== undefined) return [stored];
  if (course.kind === "abort") {
    return [{ type: ABORT_REQUESTED, status: "True", message: course.why }];
  }
  const isCancelled = migration.metadata.deletionTimestamp !== undefined;
  const isAborted = state?.abortRequested === true;
  return isCancelled || isAborted ? [{ type: ABORT_REQUESTED, status: "True" }] : [];
}

function quotaCondition({ failures }: MigrationStatusFacts): readonly NewCondition[] {
  const refused = failures.find(
    ({ step, message }) => step === "createTargetPod" && message.includes("exceeded quota"),
  );
  if (refused === undefined) return [];
  const { message } = refused;
  return [{ type: REJECTED_BY_QUOTA, status: "True", reason: "ExceededQuota", message }];
}

function listConditions(told: MigrationStatusFacts): Conditions {
  const isOver = told.state?.completed === true;
  const held = isOver ? [] : heldCondition(told.state);
  const all = [...abortCondition(told), ...quotaCondition(told), ...held];
  return withTransitionTimes(all, told.migration.status?.conditions, told.now);
}

/** The VMI's final migration state. If the VMI never had one, the reason for the failure. */
function finalState({
  state,
  course,
  migration,
  now,
}: MigrationStatusFacts): Pick<MigrationStatus, "migrationState"> {
  if (state !== undefined) return { migrationState: state };
  if (course.kind !== "fail" && course.kind !== "lose") return {};
  const { uid: migrationUid = "" } = migration.metadata;
  const failed = { completed: true, failed: true, failureReason: course.why, endTimestamp: now };
  return { migrationState: { migrationUid, ...failed } };
}

export function buildMigrationStatus(told: MigrationStatusFacts): MigrationStatus {
  const { migration } = told;
  const phase = PHASE_BY_DECISION[told.course.kind](told);
  const isOver = phase === "Succeeded" || phase === "Failed";
  const conditions = listConditions(told);
  const before = migration.status ?? {};
  const transitions = phaseTransitions(told, phase);
  return {
    phase,
    ...(transitions === undefined ? {} : { phaseTransitionTimestamps: transitions }),
    ...(conditions.length === 0 && before.conditions === undefined ? {} : { conditions }),
    ...(isOver ? finalState(told) : {}),
  };
}

interface MigrationEvent {
  readonly on: "migration" | "vmi";
  readonly note: {
    readonly type: "Normal" | "Warning";
    readonly reason: string;
    readonly message: string;
  };
}

interface MigrationPass {
  readonly before: VirtualMachineInstanceMigration;
  readonly status: MigrationStatus;
  readonly course: Decision;
  readonly facts: MigrationFacts;
}

function both(note: MigrationEvent["note"]): readonly MigrationEvent[] {
  return [
    { on: "migration", note },
    { on: "vmi", note },
  ];
}

interface EventValues {
  readonly name: string;
  readonly targetPod: string;
  readonly sourceNode: string;
  readonly targetNode: string;
  readonly why: string;
}

const EVENTS_BY_PHASE: Readonly<
  Partial<Record<MigrationPhase, (way: EventValues) => readonly MigrationEvent[]>>
> = {
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

function failureMessage(course: Decision, told: string | undefined): string {
  if (course.kind === "fail" || course.kind === "lose") return course.why;
  return told ?? "source node reported migration failed";
}

function eventValues({ before, course, facts }: MigrationPass): EventValues {
  const {
    targetPod = "",
    sourceNode = "",
    targetNode = "",
    failureReason,
  } = findMigrationState(facts) ?? {};
  const { name } = before.metadata;
  return { name, targetPod, sourceNode, targetNode, why: failureMessage(course, failureReason) };
}

/** The condition of that type if this pass has added it. */
function newCondition({ before, status }: MigrationPass, type: string) {
  const had = before.status?.conditions?.some((each) => each.type === type) === true;
  return had ? undefined : status.conditions?.find((each) => each.type === type);
}

/** One event for the request; none while the abort is pending. */
function abortEvents(passed: MigrationPass): readonly MigrationEvent[] {
  const { course } = passed;
  if (course.kind !== "abort" || newCondition(passed, ABORT_REQUESTED) === undefined) return [];
  const message = `the migration is ended before its time: ${course.why}`;
  return both({ type: "Warning", reason: "MigrationAbortRequested", message });
}

function heldEvents(passed: MigrationPass): readonly MigrationEvent[] {
  const { message } = newCondition(passed, GUEST_HELD_CONDITION) ?? {};
  return message === undefined
    ? []
    : both({ type: "Warning", reason: GUEST_HELD_CONDITION, message });
}

export function listMigrationEvents(passed: MigrationPass): readonly MigrationEvent[] {
  const { before, status } = passed;
  const way = eventValues(passed);
  const told = before.status?.phaseTransitionTimestamps ?? [];
  const reached = (status.phaseTransitionTimestamps ?? [])
    .map(({ phase }) => phase)
    .filter((phase) => !told.some((each) => each.phase === phase));
  const steps = reached.flatMap((phase) => EVENTS_BY_PHASE[phase]?.(way) ?? []);
  return [...steps, ...heldEvents(passed), ...abortEvents(passed)];
}
