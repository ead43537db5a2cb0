// SPDX-License-Identifier: Apache-2.0
// Requests that each pod of net-agent removes the CNI plugin from its node when the pod ends.
import { names, PODS } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isAppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { findType } from "../types.ts";
import { isPodCreation } from "./pod-creation.ts";

const AGENTS_SELECTOR = "app.kubernetes.io/name=net-agent";

/** Marks each pod of net-agent. When a marked pod ends, it removes the CNI plugin from its node. */
export async function requestPluginRemoval(store: Store): Promise<void> {
  const { items } = await store.list(PODS, {
    namespace: names.SERVICES_NAMESPACE,
    labelSelector: AGENTS_SELECTOR,
  });
  const annotations = { [names.UNINSTALL_PLUGIN_ANNOTATION]: "true" };
  for (const { metadata } of items) {
    try {
      await store.patch(PODS, metadata, { type: "merge", fields: { metadata: { annotations } } });
    } catch (error) {
      // Ignores a pod that no longer exists. If another pod replaced it, a repeated uninstallation marks the new pod.
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    }
  }
}

export async function requestPluginRemovalIfUnused(
  store: Store,
  objects: readonly KubeObject[],
): Promise<void> {
  const [agent] = objects.filter(
    ({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "net-agent",
  );
  if (agent === undefined || isPodCreation(agent)) return;
  const found = await store.find(findType(agent), agent.metadata);
  if (found !== undefined && isPodCreation({ ...found, kind: agent.kind })) {
    await requestPluginRemoval(store);
  }
}
