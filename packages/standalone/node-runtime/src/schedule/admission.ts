// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";
import type { Cache } from "@patchbay/core/interfaces";
import type { Reason } from "../pods/facts.ts";
import { parseAllocatable, type Amounts, buildRejection, findShortages } from "./resources.ts";

/** Admits pods to this node in order of arrival. A pod whose author set its node was not checked by a scheduler. */
export interface Admission {
  /** Reserves the pod's requests until it finishes. Always admits a started pod. Idempotent. */
  admit(pod: Pod, hasStarted: boolean): Reason | undefined;
}

export interface AdmissionDeps {
  readonly pods: Cache<Pod>;
  readonly findNode: () => KubeNode | undefined;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

/** Creates the admission. It survives restarts, because the status of admitted pods has a start time. */
export function createAdmission({ pods, findNode }: AdmissionDeps): Admission {
  const admitted = new Set<string>();
  let lastAllocatable: Amounts | undefined;
  pods.onChange((change) => {
    if (change.kind === "deleted") admitted.delete(uidOf(change.previous));
  });
  const isAdmitted = (pod: Pod): boolean =>
    admitted.has(uidOf(pod)) || pod.status?.startTime !== undefined;
  const findShortage = (pod: Pod): Reason | undefined => {
    lastAllocatable = parseAllocatable(findNode()) ?? lastAllocatable; // deletion of the Node object must not end checks
    const others = pods.list().filter((one) => uidOf(one) !== uidOf(pod) && isAdmitted(one));
    const [firstShortage] =
      lastAllocatable === undefined ? [] : findShortages(pod, others, lastAllocatable);
    return firstShortage && buildRejection(firstShortage);
  };
  return {
    admit: (pod, hasStarted) => {
      const rejection = hasStarted || isAdmitted(pod) ? undefined : findShortage(pod);
      if (rejection === undefined) admitted.add(uidOf(pod));
      return rejection;
    },
  };
}
