// SPDX-License-Identifier: Apache-2.0
// Does the API server know a kind? As its discovery says, which every account may read.
import { type KubeObject, type ResourceType } from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import type { Logger } from "@patchbay/core/ports";

/** A person waits for the answer; milliseconds. */
const TIMEOUT_MS = 2_000;

/** Asks each time: kinds come and go. Where nobody answers, the kind counts as known. */
export function askDiscovery(
  client: Pick<KubeClient, "requestRaw">,
  log: Logger,
  { group, version }: Pick<ResourceType<KubeObject>, "group" | "version">,
): () => Promise<boolean> {
  const path = `/apis/${group}/${version}`;
  return async () => {
    try {
      await client.requestRaw({ method: "GET", path, timeoutMs: TIMEOUT_MS });
      return true;
    } catch (error) {
      if (isAppError(error, "KUBE_NOT_FOUND")) return false;
      log.warn("cannot ask which kinds there are", { path, reason: messageOf(error) });
      return true;
    }
  };
}
