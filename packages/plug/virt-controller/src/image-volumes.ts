// SPDX-License-Identifier: Apache-2.0
// Does the API server keep volumes that are images? Servers before Kubernetes 1.31 drop them, later ones may refuse them.
import { PODS, type Pod } from "@patchbay/api";
import { hasImageVolume, isAppError } from "@patchbay/core";
import type { Logger, Store } from "@patchbay/core/ports";

/** What the server was found to do. */
export interface ImageVolumes {
  /**
   * Asks once, by a dry run of a pod that is to be made. A pod that is refused for another reason tells nothing: it does
   * without such a volume, and the next one is asked by.
   */
  areKept(pod: Pod): Promise<boolean>;
  /** A stored pod has lost its image: the server is not the one that was asked, or a node's runtime knows no such volumes. */
  wereLost(): void;
}

/** Nothing is asked before the first pod. */
export function createImageVolumes(deps: {
  readonly store: Pick<Store, "create">;
  readonly log: Logger;
}): ImageVolumes {
  let known: boolean | undefined;
  /** Names of pods that were refused, which are not asked by again. */
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
