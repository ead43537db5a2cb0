// SPDX-License-Identifier: Apache-2.0
// On which node is the pod that a token is bound to?
import { PODS } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";

/** A pod that a token is bound to, as the token's claims name it. */
export interface TokenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Finds the node of the pod; undefined where there is no such pod, or it has no node yet. */
export type NodeOfPod = (pod: TokenPod) => Promise<string | undefined>;

/**
 * Most pods whose node is remembered; the one that was read first is forgotten first. One agent runs on each node.
 * Source: Kubernetes "Considerations for large clusters", nodes.
 */
const REMEMBERED_MAX = 5000;

/** Reads each pod once: its node never changes once it is set, and a pod of that name with another uid is another pod. */
export function askForPods(store: Store): NodeOfPod {
  const known = new Map<string, string>();
  return async ({ uid, ...key }) => {
    const remembered = known.get(uid);
    if (remembered !== undefined) return remembered;
    const pod = await store.find(PODS, key);
    const node = pod?.metadata.uid === uid ? pod.spec.nodeName : undefined;
    if (node === undefined || node === "") return undefined;
    known.set(uid, node);
    const [oldest] = known.keys();
    if (known.size > REMEMBERED_MAX && oldest !== undefined) known.delete(oldest);
    return node;
  };
}
