// SPDX-License-Identifier: Apache-2.0
// Which pods does a change concern? Their own changes, and those of the networks that they ask for.
import { names, parseNetworks, type NetworkAttachmentDefinition, type Pod } from "@patchbay/api";
import { keyOf, printKey, specVersionOf, type Queue } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/ports";
import type { PolicyNow } from "./policy.ts";

/** Index of the cache of pods: by the networks that they ask for, as NAMESPACE/NAME. */
export const BY_NETWORK = "network";

/** The networks that a pod asks for, as NAMESPACE/NAME; none where its annotation cannot be read. */
export function networksAskedBy(pod: Pod): readonly string[] {
  const networks = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  if (!networks.ok) return [];
  const own = pod.metadata.namespace ?? "";
  return networks.elements.map(({ namespace = "", name }) => {
    return `${namespace === "" ? own : namespace}/${name}`;
  });
}

/** What is wanted of a pod, in short: its annotation is no part of its generation. */
export function askedOf(pod: Pod | undefined): string {
  return `${specVersionOf(pod)} ${pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? ""}`;
}

/**
 * Wakes pods from now on; `pods` is indexed {@link BY_NETWORK}. A network that goes wakes its pods as one that comes does,
 * and another policy all pods that ask for networks.
 */
export function wakePods(
  queue: Pick<Queue, "add">,
  {
    pods,
    nads,
    policy,
  }: {
    readonly pods: Cache<Pod>;
    readonly nads: Cache<NetworkAttachmentDefinition>;
    readonly policy: Pick<PolicyNow, "onChange">;
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
      if (networksAskedBy(pod).length > 0) queue.add(printKey(keyOf(pod)));
    }
  });
}
