// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";
import type { Cache } from "@patchbay/core/interfaces";
import type { Reason } from "../pods/facts.ts";
import { parseAllocatable, type Amounts, buildRejection, findShortages } from "./resources.ts";

/** Checks whether the node has enough resources for a pod. The scheduler does not check pods that were created with spec.nodeName. */
export interface Admission {
  /** Reserves the pod's requests, or returns why the pod is rejected. Always admits a started pod. Idempotent. */
  admit(pod: Pod, hasStarted: boolean): Reason | undefined;
}

export interface AdmissionDeps {
  readonly pods: Cache<Pod>;
  readonly findNode: () => KubeNode | undefined;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? "";
}

export function createAdmission({ pods, findNode }: AdmissionDeps): Admission {
  const admittedUids = new Set<string>();
  let lastAllocatable: Amounts | undefined;
  pods.onChange((change) => {
    if (change.kind === "deleted") admittedUids.delete(uidOf(change.previous));
  });
  // A start time in the status shows that an earlier process admitted the pod.
  const isAdmitted = (pod: Pod): boolean =>
    admittedUids.has(uidOf(pod)) || pod.status?.startTime !== undefined;
  const findShortage = (pod: Pod): Reason | undefined => {
    lastAllocatable = parseAllocatable(findNode()) ?? lastAllocatable; // Without a Node object, the last known resources apply.
    const admittedPods = pods
      .list()
      .filter((otherPod) => uidOf(otherPod) !== uidOf(pod) && isAdmitted(otherPod));
    const [firstShortage] =
      lastAllocatable === undefined ? [] : findShortages(pod, admittedPods, lastAllocatable);
    return firstShortage && buildRejection(firstShortage);
  };
  return {
    admit: (pod, hasStarted) => {
      const rejection = hasStarted || isAdmitted(pod) ? undefined : findShortage(pod);
      if (rejection === undefined) admittedUids.add(uidOf(pod));
      return rejection;
    },
  };
}
