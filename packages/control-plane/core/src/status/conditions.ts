// SPDX-License-Identifier: Apache-2.0
import type { VmiStatus } from "@patchbay/api";

export type Conditions = NonNullable<VmiStatus["conditions"]>;

export type NewCondition = Pick<Conditions[number], "type" | "status" | "reason" | "message">;

/** The guest runs. Source: KubeVirt VirtualMachineInstanceReady and VirtualMachineReady. */
export const READY = "Ready";

/** False if the object cannot be brought to its spec; never True. Source: KubeVirt VirtualMachineInstanceSynchronized. */
export const SYNCHRONIZED = "Synchronized";

/** The guest agent responds; missing otherwise. Source: KubeVirt VirtualMachineInstanceAgentConnected. */
export const AGENT_CONNECTED = "AgentConnected";

/** The guest is paused; missing otherwise. Source: KubeVirt VirtualMachineInstancePaused. */
export const PAUSED = "Paused";

export function findCondition(
  conditions: Conditions | undefined,
  type: string,
): Conditions[number] | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Adds transition times: the stored one if the status is unchanged, otherwise `now`. */
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
