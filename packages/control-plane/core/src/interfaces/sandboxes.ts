// SPDX-License-Identifier: Apache-2.0

/** Sandbox of a pod. Source: CRI PodSandboxStatus. */
export interface Sandbox {
  /** Sandbox ID, which is CNI_CONTAINERID. */
  readonly id: string;
  readonly podUid: string;
  readonly pod: { readonly namespace: string; readonly name: string };
  /** For example `/run/netns/cni-1234`. */
  readonly netnsPath: string;
  /** Inode of the network namespace as decimal text. */
  readonly netnsInode: string;
}

export interface Sandboxes {
  find(podUid: string): Promise<Sandbox | undefined>;
}
