// SPDX-License-Identifier: Apache-2.0
// Has the container runtimes of all nodes call net-agent no more, once its pods end.
import { names, PODS, type KubeObject } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import type { Store } from "@patchbay/core/ports";
import { typeOf } from "../types.ts";
import { isPodCreation } from "./pod-creation.ts";

const AGENTS = "app.kubernetes.io/name=net-agent";

/** Tells each pod of net-agent that its end is for good: it then takes the plugin away from its node. */
export async function leaveRuntimes(store: Store): Promise<void> {
  const { items } = await store.list(PODS, {
    namespace: names.SERVICES_NAMESPACE,
    labelSelector: AGENTS,
  });
  const annotations = { [names.LEAVE_RUNTIME_ANNOTATION]: "true" };
  for (const { metadata } of items) {
    try {
      await store.patch(PODS, metadata, { type: "merge", fields: { metadata: { annotations } } });
    } catch (error) {
      // Gone meanwhile, and another one has its place where it is not for good.
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    }
  }
}

/** The same where the next installation makes networks of pods no more, and the one that is there does. */
export async function leaveUnlessKept(store: Store, objects: readonly KubeObject[]): Promise<void> {
  const [agent] = objects.filter(
    ({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "net-agent",
  );
  if (agent === undefined || isPodCreation(agent)) return;
  const found = await store.find(typeOf(agent), agent.metadata);
  if (found !== undefined && isPodCreation({ ...found, kind: agent.kind })) {
    await leaveRuntimes(store);
  }
}
