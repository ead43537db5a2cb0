// SPDX-License-Identifier: Apache-2.0

export interface Sandbox {
  /** Sandbox ID. CNI plugins receive this ID as CNI_CONTAINERID. */
  readonly id: string;
  readonly podUid: string;
  readonly pod: { readonly namespace: string; readonly name: string };
  readonly netnsPath: string;
  readonly netnsInode: string;
  readonly isMeshed?: true;
}

export interface Sandboxes {
  find(podUid: string): Promise<Sandbox | undefined>;
  /** Returns whether the runtime reports the sandbox as ready, even if this process cannot see its network namespace. */
  isReady(id: string): Promise<boolean>;
}
