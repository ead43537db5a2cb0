// SPDX-License-Identifier: Apache-2.0
// Detects whether the API server supports image volumes. Servers before Kubernetes 1.31 drop them, and later ones may reject them.
import { PODS, type Pod } from "@patchbay/api";
import { hasImageVolume, isAppError } from "@patchbay/core";
import type { Logger, Store } from "@patchbay/core/ports";

export interface ImageVolumes {
  /**
   * Tests once with a dry run of the pod. If the pod is rejected for another reason, the result stays unknown: this pod is created
   * without such a volume, and the next pod is tested.
   */
  areKept(pod: Pod): Promise<boolean>;
  /** Called when a stored pod has lost its image: the API server was replaced, or a node's runtime does not support image volumes. */
  wereLost(): void;
}

export function createImageVolumes(deps: {
  readonly store: Pick<Store, "create">;
  readonly log: Logger;
}): ImageVolumes {
  let known: boolean | undefined;
  /** Names of rejected pods, which are not tested again. */
  const refused = new Set<string>();
  const learn = (areKept: boolean): boolean => {
    if (known !== areKept) deps.log.info("asked about image volumes", { areKept });
    known = areKept;
    refused.clear();
    return areKept;
  };
  return {
    areKept: async (pod) => {
      if (known !== undefined || refused.has(pod.metadata.name)) return known ?? false;
      try {
        return learn(hasImageVolume(await deps.store.create(PODS, pod, { dryRun: true })));
      } catch (error) {
        if (isAppError(error, "KUBE_REFUSED") && error.message.includes("spec.volumes")) {
          return learn(false);
        }
        const isJudged = ["KUBE_REFUSED", "KUBE_FORBIDDEN", "KUBE_ALREADY_EXISTS"] as const;
        if (!isJudged.some((code) => isAppError(error, code))) throw error;
        refused.add(pod.metadata.name);
        return false;
      }
    },
    wereLost: () => {
      learn(false);
    },
  };
}
