// SPDX-License-Identifier: Apache-2.0
// Has the guest of a VMI run? While its node does not answer the phase does not say so.
import type { VirtualMachineInstance } from "@patchbay/api";

/** Whether it runs, or ran when it was last heard of. */
export function hasRun({ status }: VirtualMachineInstance): boolean {
  if (status?.phase !== "Unknown") return status?.phase === "Running";
  return status.phaseTransitionTimestamps?.some(({ phase }) => phase === "Running") === true;
}

/** Whether it has ever run, also when it is over. */
export function hasEverRun({ status }: VirtualMachineInstance): boolean {
  const { phase, phaseTransitionTimestamps: seen = [] } = status ?? {};
  return phase === "Running" || seen.some((entry) => entry.phase === "Running");
}
