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
import {
  ABORT_REQUESTED,
  findMigrationState,
  isTargetReady,
  type MigrationFacts,
} from "./facts.ts";
import { buildPausedGuestCondition, GUEST_PAUSED_ON_TARGET } from "../incoming.ts";

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
  readonly now: string;
}

function findOpenPhase({ state }: MigrationStatusFacts): MigrationPhase {
  if (state === undefined) return "Scheduled";
  if (state.startTimestamp !== undefined) return "Running";
  return isTargetReady(state) ? "TargetReady" : "PreparingTarget";
}

function findClosedPhase({ state, migration }: MigrationStatusFacts): MigrationPhase {
  if (state === undefined) return migration.status?.phase ?? "Pending";
  return state.failed === true ? "Failed" : "Succeeded";
}

const PHASE_BY_DECISION: Readonly<
  Record<Decision["kind"], (facts: MigrationStatusFacts) => MigrationPhase>
> = {
  wait: () => "Pending",
  begin: ({ failures }) => (failures.length === 0 ? "Scheduling" : "Pending"),
  schedule: () => "Scheduling",
  open: findOpenPhase,
  continue: findOpenPhase,
  abort: findOpenPhase,
  fail: () => "Failed",
  failWithLostGuest: () => "Failed",
  succeed: () => "Succeeded",
  closed: findClosedPhase,
};

/** Lists the phases after `lastPhase` up to `phase`, including skipped phases. If `phase` is Failed, lists only Failed. */
function listReachedPhases(
  lastPhase: MigrationPhase | undefined,
  phase: MigrationPhase,
): readonly MigrationPhase[] {
  if (phase === "Failed") return [phase];
  const lastIndex = lastPhase === undefined ? -1 : PHASE_ORDER.indexOf(lastPhase);
  return PHASE_ORDER.slice(lastIndex + 1, PHASE_ORDER.indexOf(phase) + 1);
}

function phaseTransitions(
  { migration, now }: MigrationStatusFacts,
  phase: MigrationPhase,
): MigrationStatus["phaseTransitionTimestamps"] {
  const { phase: currentPhase, phaseTransitionTimestamps: transitions = [] } =
    migration.status ?? {};
  const lastPhase = currentPhase === "" ? undefined : currentPhase;
  if (lastPhase === phase) return transitions;
  const newPhases = listReachedPhases(lastPhase, phase).filter(
    (newPhase) => !transitions.some((transition) => transition.phase === newPhase),
  );
  return [
    ...transitions,
    ...newPhases.map((newPhase) => ({ phase: newPhase, phaseTransitionTimestamp: now })),
  ];
}

function buildAbortCondition({
  decision,
  migration,
  state,
}: MigrationStatusFacts): readonly NewCondition[] {
  const storedCondition = migration.status?.conditions?.find(
    ({ type }) => type === ABORT_REQUESTED,
  );
  if (storedCondition !== undefined) return [storedCondition];
  if (decision.kind === "abort") {
    return [{ type: ABORT_REQUESTED, status: "True", message: decision.why }];
  }
  const isCancelled = migration.metadata.deletionTimestamp !== undefined;
  const isAborted = state?.abortRequested === true;
  return isCancelled || isAborted ? [{ type: ABORT_REQUESTED, status: "True" }] : [];
}

function buildQuotaCondition({ failures }: MigrationStatusFacts): readonly NewCondition[] {
  const refused = failures.find(
    ({ step, message }) => step === "createTargetPod" && message.includes("exceeded quota"),
  );
  if (refused === undefined) return [];
  const { message } = refused;
  return [{ type: REJECTED_BY_QUOTA, status: "True", reason: "ExceededQuota", message }];
}

function listConditions(facts: MigrationStatusFacts): Conditions {
  const hasEnded = facts.state?.completed === true;
  const pausedGuestCondition = hasEnded ? [] : buildPausedGuestCondition(facts.state);
  const newConditions = [
    ...buildAbortCondition(facts),
    ...buildQuotaCondition(facts),
    ...pausedGuestCondition,
  ];
  return withTransitionTimes(newConditions, facts.migration.status?.conditions, facts.now);
}

/** Returns the VMI's migration state. If the VMI has no state and the migration failed, builds a state with the failure. */
function buildFinalState({
  state,
  decision,
  migration,
  now,
}: MigrationStatusFacts): Pick<MigrationStatus, "migrationState"> {
  if (state !== undefined) return { migrationState: state };
  if (decision.kind !== "fail" && decision.kind !== "failWithLostGuest") return {};
  const { uid: migrationUid = "" } = migration.metadata;
  const failed = { completed: true, failed: true, failureReason: decision.why, endTimestamp: now };
  return { migrationState: { migrationUid, ...failed } };
}

export function buildMigrationStatus(facts: MigrationStatusFacts): MigrationStatus {
  const { migration } = facts;
  const phase = PHASE_BY_DECISION[facts.decision.kind](facts);
  const hasEnded = phase === "Succeeded" || phase === "Failed";
  const conditions = listConditions(facts);
  const oldStatus = migration.status ?? {};
  const transitions = phaseTransitions(facts, phase);
  return {
    phase,
    ...(transitions === undefined ? {} : { phaseTransitionTimestamps: transitions }),
    ...(conditions.length === 0 && oldStatus.conditions === undefined ? {} : { conditions }),
    ...(hasEnded ? buildFinalState(facts) : {}),
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

function findFailureMessage(decision: Decision, reportedReason: string | undefined): string {
  if (decision.kind === "fail" || decision.kind === "failWithLostGuest") return decision.why;
  return reportedReason ?? "source node reported migration failed";
}

function buildEventValues({ before, decision, facts }: MigrationPass): EventValues {
  const {
    targetPod = "",
    sourceNode = "",
    targetNode = "",
    failureReason,
  } = findMigrationState(facts) ?? {};
  const { name } = before.metadata;
  return {
    name,
    targetPod,
    sourceNode,
    targetNode,
    why: findFailureMessage(decision, failureReason),
  };
}

function findNewCondition({ before, status }: MigrationPass, type: string) {
  const hadCondition =
    before.status?.conditions?.some((condition) => condition.type === type) === true;
  return hadCondition ? undefined : status.conditions?.find((condition) => condition.type === type);
}

function buildAbortEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { decision } = pass;
  if (decision.kind !== "abort" || findNewCondition(pass, ABORT_REQUESTED) === undefined) return [];
  const message = `the migration is ended before its time: ${decision.why}`;
  return both({ type: "Warning", reason: "MigrationAbortRequested", message });
}

function buildPausedGuestEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { message } = findNewCondition(pass, GUEST_PAUSED_ON_TARGET) ?? {};
  return message === undefined
    ? []
    : both({ type: "Warning", reason: GUEST_PAUSED_ON_TARGET, message });
}

export function listMigrationEvents(pass: MigrationPass): readonly MigrationEvent[] {
  const { before, status } = pass;
  const values = buildEventValues(pass);
  const knownTransitions = before.status?.phaseTransitionTimestamps ?? [];
  const newTransitions = (status.phaseTransitionTimestamps ?? [])
    .map(({ phase }) => phase)
    .filter((phase) => !knownTransitions.some((transition) => transition.phase === phase));
  const phaseEvents = newTransitions.flatMap((phase) => EVENTS_BY_PHASE[phase]?.(values) ?? []);
  return [...phaseEvents, ...buildPausedGuestEvents(pass), ...buildAbortEvents(pass)];
}
