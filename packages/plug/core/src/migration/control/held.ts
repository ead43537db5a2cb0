// SPDX-License-Identifier: Apache-2.0
// Does a guest that has come to its target stand still there, since it is not what its node made ready? Told by virt-controller on VMI
// and migration, from what the target's node says.
import type { MigrationState } from "@patchbay/api";
import type { NewCondition } from "../../status/conditions.ts";

/** Condition of a VMI and of its migration; ours. */
export const GUEST_HELD = "GuestHeld";

/** Why it does, and what can be done; undefined: it does not. */
export function heldMessage(state: MigrationState | undefined): string | undefined {
  const { targetNodeDomainFaults: faults = [], targetNode = "" } = state ?? {};
  if (faults.length === 0) return undefined;
  return `the guest has come to node ${targetNode} and stands still there, since it is not what was made ready for it: ${faults.join("; ")}. It goes on by itself when that is so no longer; else restart the VM`;
}

/** The condition, while there is one. */
export function heldCondition(state: MigrationState | undefined): readonly NewCondition[] {
  const message = heldMessage(state);
  if (message === undefined) return [];
  return [{ type: GUEST_HELD, status: "True", reason: "ArrivedOtherwise", message }];
}
