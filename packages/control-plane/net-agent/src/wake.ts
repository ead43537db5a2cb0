// SPDX-License-Identifier: Apache-2.0
// Which pods to reconcile after a change of a pod, a network or the policy.
import { names, type NetworkAttachmentDefinition } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { keyOf, printKey, specVersionOf, type Queue } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import type { CurrentPolicy } from "./policy.ts";

/** Index of the pod cache by requested networks, NAMESPACE/NAME. */
export const BY_NETWORK = "network";

/** Returns the networks that a pod requests, as NAMESPACE/NAME; none if its annotation is invalid. */
export function listRequestedNetworks(pod: Pod): readonly string[] {
  const networks = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  if (!networks.ok) return [];
  const own = pod.metadata.namespace ?? "";
  return networks.elements.map(({ namespace = "", name }) => {
    return `${namespace === "" ? own : namespace}/${name}`;
  });
}

/** Serializes the inputs of a pod's attachments. Includes the annotation, because it does not change the generation. */
export function serializeInputs(pod: Pod | undefined): string {
  return `${specVersionOf(pod)} ${pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? ""}`;
}

/** Wakes the pods that request a changed network, and all pods with networks after a change of the policy. */
export function wakePods(
  queue: Pick<Queue, "add">,
  {
    pods,
    nads,
    policy,
  }: {
    /** Cache with the index {@link BY_NETWORK}. */
    readonly pods: Cache<Pod>;
    readonly nads: Cache<NetworkAttachmentDefinition>;
    readonly policy: Pick<CurrentPolicy, "onChange">;
  },
): void {
  pods.onChange((change) => {
    queue.add(printKey(keyOf(change.kind === "deleted" ? change.previous : change.current)));
  });
  nads.onChange((change) => {
    const nad = change.kind === "deleted" ? change.previous : change.current;
    for (const pod of pods.listBy(BY_NETWORK, printKey(keyOf(nad)))) {
      queue.add(printKey(keyOf(pod)));
    }
  });
  policy.onChange(() => {
    for (const pod of pods.list()) {
      if (listRequestedNetworks(pod).length > 0) queue.add(printKey(keyOf(pod)));
    }
  });
}
