// SPDX-License-Identifier: Apache-2.0
// Conditions: which there are, and since when.
import type { VmiStatus } from "@patchbay/api";

/** Conditions as they are stored. */
export type Conditions = NonNullable<VmiStatus["conditions"]>;

/** A condition that does not know yet since when. */
export type NewCondition = Pick<Conditions[number], "type" | "status" | "reason" | "message">;

/** Whether the guest runs. Source: KubeVirt VirtualMachineInstanceReady and VirtualMachineReady. */
export const READY = "Ready";

/** False: something stands in the way. Source: KubeVirt VirtualMachineInstanceSynchronized. */
export const SYNCHRONIZED = "Synchronized";

/** The guest's agent listens; there is none otherwise. Source: KubeVirt VirtualMachineInstanceAgentConnected. */
export const AGENT_CONNECTED = "AgentConnected";

/** The guest's vCPUs stand still; there is none otherwise. Source: KubeVirt VirtualMachineInstancePaused. */
export const PAUSED = "Paused";

/** The condition of that type. */
export function findCondition(
  conditions: Conditions | undefined,
  type: string,
): Conditions[number] | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** With the time of the last change of status: the one that is stored, else `now`. */
export function withTimes(
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
