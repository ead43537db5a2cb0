// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, Pod } from "@patchbay/api";
import type { Cache } from "@patchbay/core/interfaces";
import type { Reason } from "../pods/facts.ts";
import { parseAllocatable, type Amounts, buildRejection, findShortages } from "./resources.ts";

/** Admission of pods to this node, in order of arrival. A pod whose author set its node has passed no scheduler. */
export interface Admission {
  /** Reserves the pod's requests until it finishes. Always admits a pod that has started. Idempotent. */
  admit(pod: Pod, hasStarted: boolean): Reason | undefined;
}

export interface AdmissionDeps {
  readonly pods: Cache<Pod>;
  readonly findNode: () => KubeNode | undefined;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

/** A restart loses no admission, because the node writes a start time into the status of admitted pods. */
export function createAdmission({ pods, findNode }: AdmissionDeps): Admission {
  const admitted = new Set<string>();
  let lastAllocatable: Amounts | undefined;
  pods.onChange((change) => {
    if (change.kind === "deleted") admitted.delete(uidOf(change.previous));
  });
  const isAdmitted = (pod: Pod): boolean =>
    admitted.has(uidOf(pod)) || pod.status?.startTime !== undefined;
  const findShortage = (pod: Pod): Reason | undefined => {
    lastAllocatable = parseAllocatable(findNode()) ?? lastAllocatable; // deleting the Node object must not free resources
    const others = pods.list().filter((one) => uidOf(one) !== uidOf(pod) && isAdmitted(one));
    const [first] =
      lastAllocatable === undefined ? [] : findShortages(pod, others, lastAllocatable);
    return first && buildRejection(first);
  };
  return {
    admit: (pod, hasStarted) => {
      const rejection = hasStarted || isAdmitted(pod) ? undefined : findShortage(pod);
      if (rejection === undefined) admitted.add(uidOf(pod));
      return rejection;
    },
  };
}
