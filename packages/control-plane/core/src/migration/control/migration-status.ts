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
import { buildPausedGuestCondition, GUEST_HELD_CONDITION } from "../incoming.ts";

type MigrationStatus = NonNullable<VirtualMachineInstanceMigration["status"]>;
type MigrationPhase = NonNullable<MigrationStatus["phase"]>;

const PHASE_ORDER: readonly MigrationPhase[] = MIGRATION_PHASES;

/** Condition type. Source: KubeVirt VirtualMachineInstanceMigrationRejectedByResourceQuota. */
const REJECTED_BY_QUOTA = "migrationRejectedByResourceQuota";

interface MigrationStatusFacts {
  readonly migration: VirtualMachineInstanceMigration;
  readonly decision: Decision;
  readonly state: MigrationState | undefined;
  readonly failures: readonly StepFailure[];
  /** Time of day in RFC 3339. */
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
  Record<Decision["kind"], (facts: MigrationStatusFacts) => MigrationPhase>
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

/** Lists the phases from the last status to this one. Skipped phases count as reached now. */
function reachedPhases(
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
  const { phase: current, phaseTransitionTimestamps: transitions = [] } = migration.status ?? {};
  const before = current === "" ? undefined : current;
  if (before === phase) return transitions;
  const reached = reachedPhases(before, phase).filter(
    (each) => !transitions.some((one) => one.phase === each),
  );
  return [
    ...transitions,
    ...reached.map((each) => ({ phase: each, phaseTransitionTimestamp: now })),
  ];
}

function abortCondition({
  decision,
  migration,
  state,
}: MigrationStatusFacts): readonly NewCondition[] {
  const stored = migration.status?.conditions?.find(({ type }) => type === ABORT_REQUESTED);
  if (stored !== undefined) return [stored];
  if (decision.kind === "abort") {
    return [{ type: ABORT_REQUESTED, status: "True", message: decision.why }];
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

function listConditions(facts: MigrationStatusFacts): Conditions {
  const isOver = facts.state?.completed === true;
  const held = isOver ? [] : buildPausedGuestCondition(facts.state);
  const all = [...abortCondition(facts), ...quotaCondition(facts), ...held];
  return withTransitionTimes(all, facts.migration.status?.conditions, facts.now);
}

/** Returns the VMI's final migration state. If the VMI never had one, returns a state with the failure. */
function finalState({
  state,
  decision,
  migration,
  now,
}: MigrationStatusFacts): Pick<MigrationStatus, "migrationState"> {
  if (state !== undefined) return { migrationState: state };
  if (decision.kind !== "fail" && decision.kind !== "lose") return {};
  const { uid: migrationUid = "" } = migration.metadata;
  const failed = { completed: true, failed: true, failureReason: decision.why, endTimestamp: now };
  return { migrationState: { migrationUid, ...failed } };
}

export function buildMigrationStatus(facts: MigrationStatusFacts): MigrationStatus {
  const { migration } = facts;
  const phase = PHASE_BY_DECISION[facts.decision.kind](facts);
  const isOver = phase === "Succeeded" || phase === "Failed";
  const conditions = listConditions(facts);
  const before = migration.status ?? {};
  const transitions = phaseTransitions(facts, phase);
  return {
    phase,
    ...(transitions === undefined ? {} : { phaseTransitionTimestamps: transitions }),
    ...(conditions.length === 0 && before.conditions === undefined ? {} : { conditions }),
    ...(isOver ? finalState(facts) : {}),
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
  readonly decision: Decision;
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
  Partial<Record<MigrationPhase, (values: EventValues) => readonly MigrationEvent[]>>
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

function failureMessage(decision: Decision, reported: string | undefined): string {
  if (decision.kind === "fail" || decision.kind === "lose") return decision.why;
  return reported ?? "source node reported migration failed";
}

function eventValues({ before, decision, facts }: MigrationPass): EventValues {
  const {
    targetPod = "",
    sourceNode = "",
    targetNode = "",
    failureReason,
  } = findMigrationState(facts) ?? {};
  const { name } = before.metadata;
  return { name, targetPod, sourceNode, targetNode, why: failureMessage(decision, failureReason) };
}

function newCondition({ before, status }: MigrationPass, type: string) {
  const had = before.status?.conditions?.some((each) => each.type === type) === true;
  return had ? undefined : status.conditions?.find((each) => each.type === type);
}

/** Returns the events for a new abort request. */
function abortEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { decision } = pass;
  if (decision.kind !== "abort" || newCondition(pass, ABORT_REQUESTED) === undefined) return [];
  const message = `the migration is ended before its time: ${decision.why}`;
  return both({ type: "Warning", reason: "MigrationAbortRequested", message });
}

function heldEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { message } = newCondition(pass, GUEST_HELD_CONDITION) ?? {};
  return message === undefined
    ? []
    : both({ type: "Warning", reason: GUEST_HELD_CONDITION, message });
}

export function listMigrationEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { before, status } = pass;
  const values = eventValues(pass);
  const known = before.status?.phaseTransitionTimestamps ?? [];
  const reached = (status.phaseTransitionTimestamps ?? [])
    .map(({ phase }) => phase)
    .filter((phase) => !known.some((each) => each.phase === phase));
  const steps = reached.flatMap((phase) => EVENTS_BY_PHASE[phase]?.(values) ?? []);
  return [...steps, ...heldEvents(pass), ...abortEvents(pass)];
}
