// SPDX-License-Identifier: Apache-2.0
// Which directories of sockets does no pod have any more? Pure.

/** What is known of the directories. */
export interface SweepFacts {
  /** That are there. */
  readonly there: readonly string[];
  /** That pods have, by their kubelet. */
  readonly inUse: ReadonlySet<string>;
  /** That no pod had when the kubelet was asked before, and that nobody has been given since. */
  readonly suspects: ReadonlySet<string>;
}

/** What becomes of them. */
export interface SweepPlan {
  readonly gone: readonly string[];
  /** To be asked for once more. */
  readonly suspects: readonly string[];
}

/**
 * A directory goes when the kubelet has said twice that no pod has it: it tells of a pod a little after it has asked for what
 * the pod gets.
 */
export function planSweep({ there, inUse, suspects }: SweepFacts): SweepPlan {
  const free = there.filter((id) => !inUse.has(id));
  return {
    gone: free.filter((id) => suspects.has(id)),
    suspects: free.filter((id) => !suspects.has(id)),
  };
}
