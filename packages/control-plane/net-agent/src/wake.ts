// SPDX-License-Identifier: Apache-2.0
import { names, type NetworkAttachmentDefinition } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { keyOf, printKey, specVersionOf, type Queue } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import type { CurrentPolicy } from "./policy.ts";

/** Name of an index of the pod cache. Its values are the networks that a pod requests, as NAMESPACE/NAME. */
export const BY_NETWORK = "network";

/** Returns the networks that a pod requests, as NAMESPACE/NAME; an empty list if the annotation is invalid. */
export function listRequestedNetworks(pod: Pod): readonly string[] {
  const networks = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  if (!networks.ok) return [];
  const podNamespace = pod.metadata.namespace ?? "";
  return networks.elements.map(({ namespace = "", name }) => {
    return `${namespace === "" ? podNamespace : namespace}/${name}`;
  });
}

/** Serializes the inputs of a pod's attachments. Includes the networks annotation, whose changes do not increment the generation. */
export function serializeInputs(pod: Pod | undefined): string {
  return `${specVersionOf(pod)} ${pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? ""}`;
}

/** Queues changed pods and pods that request a changed network. After a change of the policy, queues all pods that request networks. */
export function wakePods(
  queue: Pick<Queue, "add">,
  {
    pods,
    nads,
    policy,
  }: {
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
