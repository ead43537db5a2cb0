// SPDX-License-Identifier: Apache-2.0
// Detection of image volume support in the API server. Kubernetes before 1.31 drops image volumes, and later versions may reject them.
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { hasImageVolume } from "@patchbay/core/vm";
import { isAppError, type Logger } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";

export interface ImageVolumes {
  /** Returns whether the API server preserves image volumes. Each call with a new `pod` tries a dry run until one has shown the result. */
  areSupported(pod: Pod): Promise<boolean>;
  /** Records that image volumes are unsupported. Called when a stored pod lacks its image volume. */
  reportLost(): void;
}

export function createImageVolumes(deps: {
  readonly store: Pick<Store, "create">;
  readonly log: Logger;
}): ImageVolumes {
  let result: boolean | undefined;
  /** Names of pods whose dry run the API server rejected. Their dry run is not repeated. */
  const rejectedPods = new Set<string>();
  const setSupported = (areSupported: boolean): boolean => {
    if (result !== areSupported) deps.log.info("probed image volume support", { areSupported });
    result = areSupported;
    rejectedPods.clear();
    return areSupported;
  };
  return {
    areSupported: async (pod) => {
      if (result !== undefined || rejectedPods.has(pod.metadata.name)) return result ?? false;
      try {
        return setSupported(hasImageVolume(await deps.store.create(PODS, pod, { dryRun: true })));
      } catch (error) {
        if (isAppError(error, "KUBE_REFUSED") && error.message.includes("spec.volumes")) {
          return setSupported(false);
        }
        const isRejection = ["KUBE_REFUSED", "KUBE_FORBIDDEN", "KUBE_ALREADY_EXISTS"] as const;
        if (!isRejection.some((code) => isAppError(error, code))) throw error;
        rejectedPods.add(pod.metadata.name);
        return false;
      }
    },
    reportLost: () => {
      setSupported(false);
    },
  };
}
