// SPDX-License-Identifier: Apache-2.0
import type { VmiStatus } from "@patchbay/api";

export type Conditions = NonNullable<VmiStatus["conditions"]>;

export type NewCondition = Pick<Conditions[number], "type" | "status" | "reason" | "message">;

/** Condition of a guest that runs and is ready. Source: KubeVirt VirtualMachineInstanceReady and VirtualMachineReady. */
export const READY = "Ready";

/** Condition that is False if the object cannot reach its spec, and missing otherwise. Source: KubeVirt VirtualMachineInstanceSynchronized. */
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

/** Adds a transition time to each condition: the stored time if its status is unchanged, otherwise `now`. */
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
