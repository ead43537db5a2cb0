// SPDX-License-Identifier: Apache-2.0
import type { VmiStatus } from "@patchbay/api";

export type Conditions = NonNullable<VmiStatus["conditions"]>;

export type NewCondition = Pick<Conditions[number], "type" | "status" | "reason" | "message">;

/** Condition that is True if the guest runs and is ready. Source: KubeVirt VirtualMachineInstanceReady and VirtualMachineReady. */
export const READY = "Ready";

/**
 * Condition that exists, with status False, only while a problem keeps the object from matching its spec. Source: KubeVirt
 * VirtualMachineInstanceSynchronized.
 */
export const SYNCHRONIZED = "Synchronized";

/** Condition that exists while the guest agent responds. Source: KubeVirt VirtualMachineInstanceAgentConnected. */
export const AGENT_CONNECTED = "AgentConnected";

/** Condition that exists while the guest is paused. Source: KubeVirt VirtualMachineInstancePaused. */
export const PAUSED = "Paused";

export function findCondition(
  conditions: Conditions | undefined,
  type: string,
): Conditions[number] | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Adds a transition time to each condition. A condition with unchanged status retains the stored time. */
export function withTransitionTimes(
  conditions: readonly NewCondition[],
  stored: Conditions | undefined,
  now: string,
): Conditions {
  return conditions.map((condition) => {
    const previous = findCondition(stored, condition.type);
    const lastTransitionTime =
      previous?.status === condition.status ? (previous.lastTransitionTime ?? now) : now;
    return { ...condition, lastTransitionTime };
  });
}
