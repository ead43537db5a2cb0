// SPDX-License-Identifier: Apache-2.0
// A container runtime in memory, as far as sandboxes go.
import type { Sandbox, Sandboxes } from "@patchbay/core/ports";

/** {@link Sandboxes} in memory. */
export interface FakeSandboxes extends Sandboxes {
  /** The runtime makes a sandbox, in place of the pod's one before. */
  put(sandbox: Sandbox): void;
  /** The runtime removes the pod's sandbox. */
  take(podUid: string): void;
}

/** A runtime without any pod. */
export function createFakeSandboxes(): FakeSandboxes {
  const sandboxes = new Map<string, Sandbox>();
  return {
    put: (sandbox) => void sandboxes.set(sandbox.podUid, sandbox),
    take: (podUid) => void sandboxes.delete(podUid),
    find: (podUid) => Promise.resolve(sandboxes.get(podUid)),
  };
}
