// SPDX-License-Identifier: Apache-2.0
// The conditions of a pod that its node tells. Pure.
import type { Condition, ContainerStatus } from "@patchbay/api";

/** What the conditions rest on. */
export interface ConditionFacts {
  /** Those that are there; those of others stay. */
  readonly before: readonly Condition[];
  readonly isOver: boolean;
  readonly hasFailed: boolean;
  readonly isInitialized: boolean;
  readonly containers: readonly ContainerStatus[];
  /** Now, RFC 3339. */
  readonly now: string;
}

const OWN: readonly string[] = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];

type Finding = Pick<Condition, "type" | "status" | "reason" | "message">;

function readiness(type: string, facts: ConditionFacts): Finding {
  const unready = facts.containers.filter(({ ready }) => !ready).map(({ name }) => name);
  if (facts.isOver) {
    return { type, status: "False", reason: facts.hasFailed ? "PodFailed" : "PodCompleted" };
  }
  if (unready.length === 0) return { type, status: "True" };
  const message = `containers with unready status: [${unready.join(" ")}]`;
  return { type, status: "False", reason: "ContainersNotReady", message };
}

function initialized({ isInitialized, isOver, hasFailed }: ConditionFacts): Finding {
  if (isInitialized || (isOver && !hasFailed)) return { type: "Initialized", status: "True" };
  const message = "not all init containers have succeeded";
  return { type: "Initialized", status: "False", reason: "ContainersNotInitialized", message };
}

function conditionOf(finding: Finding, { before, now }: ConditionFacts): Condition {
  const earlier = before.find(({ type }) => type === finding.type);
  const isSame = earlier?.status === finding.status && earlier.lastTransitionTime !== undefined;
  const lastTransitionTime = isSame ? earlier.lastTransitionTime : now;
  const { type, status, reason, message } = finding;
  return {
    type,
    status,
    lastTransitionTime,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
  };
}

/** In the order in which they are there. */
export function conditionsOf(facts: ConditionFacts): readonly Condition[] {
  const { before } = facts;
  const findings: readonly Finding[] = [
    initialized(facts),
    readiness("Ready", facts),
    readiness("ContainersReady", facts),
    { type: "PodScheduled", status: "True" },
  ];
  const own = findings.map((finding) => conditionOf(finding, facts));
  const kept = before.map((earlier) => own.find(({ type }) => type === earlier.type) ?? earlier);
  return [...kept, ...own.filter(({ type }) => !before.some((one) => one.type === type))];
}

/** Whether the list has a condition that the node does not own: a write of the list must lose no race then. */
export function hasForeignCondition(conditions: readonly Condition[]): boolean {
  return conditions.some(({ type }) => !OWN.includes(type));
}
