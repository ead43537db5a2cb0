// SPDX-License-Identifier: Apache-2.0
// Does the node take a pod that names it? One that its author gave a node was counted by nobody before.
import type { KubeNode, Pod } from "@patchbay/api";
import type { Cache } from "@patchbay/core/ports";
import type { Reason } from "../pods/facts.ts";
import { allocatableOf, type Amounts } from "./amounts.ts";
import { sayRefusal, shortagesOf } from "./shortage.ts";

/** The places of the node: first come, first served. */
export interface Admission {
  /**
   * Takes the pod, which from then on holds what it asks for until it is over, or says why not. One that has begun is taken
   * whatever it asks for. Repeated, it says the same of those that were taken.
   */
  refuse(pod: Pod, hasBegun: boolean): Reason | undefined;
}

/** What admission rests on. */
export interface AdmissionDeps {
  /** The pods of this node. */
  readonly pods: Cache<Pod>;
  readonly findNode: () => KubeNode | undefined;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

/** Forgets nothing that matters when the process starts anew: who has been taken has a start time, which the node writes. */
export function createAdmission({ pods, findNode }: AdmissionDeps): Admission {
  const taken = new Set<string>();
  let known: Amounts | undefined;
  pods.onChange((change) => {
    if (change.kind === "deleted") taken.delete(uidOf(change.previous));
  });
  const isTaken = (pod: Pod): boolean =>
    taken.has(uidOf(pod)) || pod.status?.startTime !== undefined;
  const shortageOf = (pod: Pod): Reason | undefined => {
    known = allocatableOf(findNode()) ?? known; // who takes the node's object away frees nothing
    const others = pods.list().filter((one) => uidOf(one) !== uidOf(pod) && isTaken(one));
    const [first] = known === undefined ? [] : shortagesOf(pod, others, known);
    return first && sayRefusal(first);
  };
  return {
    refuse: (pod, hasBegun) => {
      const refusal = hasBegun || isTaken(pod) ? undefined : shortageOf(pod);
      if (refusal === undefined) taken.add(uidOf(pod));
      return refusal;
    },
  };
}
