// SPDX-License-Identifier: Apache-2.0
import type { Sandbox, Sandboxes } from "@patchbay/core/interfaces";

export interface FakeSandboxes extends Sandboxes {
  /** Creates a sandbox, replacing the pod's previous one. */
  put(sandbox: Sandbox): void;
  take(podUid: string): void;
}

export function createFakeSandboxes(): FakeSandboxes {
  const sandboxes = new Map<string, Sandbox>();
  return {
    put: (sandbox) => void sandboxes.set(sandbox.podUid, sandbox),
    take: (podUid) => void sandboxes.delete(podUid),
    find: (podUid) => Promise.resolve(sandboxes.get(podUid)),
    isReady: (id) => Promise.resolve([...sandboxes.values()].some((sandbox) => sandbox.id === id)),
  };
}
