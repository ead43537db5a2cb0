// SPDX-License-Identifier: Apache-2.0
// Where a pod's network namespace is, as the container runtime tells it.

/** The sandbox of a pod. Source: CRI PodSandboxStatus. */
export interface Sandbox {
  /** CNI_CONTAINERID. */
  readonly id: string;
  readonly podUid: string;
  /** Whose it is. */
  readonly pod: { readonly namespace: string; readonly name: string };
  /** For example `/run/netns/cni-1234`. */
  readonly netnsPath: string;
  /** Inode of the namespace, decimal text. */
  readonly netnsInode: string;
}

/** The container runtime, as far as the node's agents ask it. */
export interface Sandboxes {
  /** The ready sandbox of a pod, or undefined. */
  find(podUid: string): Promise<Sandbox | undefined>;
}
