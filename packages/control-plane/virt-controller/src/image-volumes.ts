// SPDX-License-Identifier: Apache-2.0
// Detects whether the API server supports image volumes. Servers before Kubernetes 1.31 drop them, and later ones may reject them.
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { hasImageVolume } from "@patchbay/core/vm";
import { isAppError, type Logger } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";

export interface ImageVolumes {
  /** Tests once with a dry run. If the pod is rejected for another reason, the result stays unknown and the next pod is tested. */
  areSupported(pod: Pod): Promise<boolean>;
  /** Called when a stored pod has lost its image: the API server was replaced, or a node's runtime does not support image volumes. */
  reportLost(): void;
}

export function createImageVolumes(deps: {
  readonly store: Pick<Store, "create">;
  readonly log: Logger;
}): ImageVolumes {
  let known: boolean | undefined;
  /** Names of rejected pods, which are not tested again. */
  const rejected = new Set<string>();
  const setSupported = (areSupported: boolean): boolean => {
    if (known !== areSupported) deps.log.info("probed image volume support", { areSupported });
    known = areSupported;
    rejected.clear();
    return areSupported;
  };
  return {
    areSupported: async (pod) => {
      if (known !== undefined || rejected.has(pod.metadata.name)) return known ?? false;
      try {
        return setSupported(hasImageVolume(await deps.store.create(PODS, pod, { dryRun: true })));
      } catch (error) {
        if (isAppError(error, "KUBE_REFUSED") && error.message.includes("spec.volumes")) {
          return setSupported(false);
        }
        const isRejection = ["KUBE_REFUSED", "KUBE_FORBIDDEN", "KUBE_ALREADY_EXISTS"] as const;
        if (!isRejection.some((code) => isAppError(error, code))) throw error;
        rejected.add(pod.metadata.name);
        return false;
      }
    },
    reportLost: () => {
      setSupported(false);
    },
  };
}
