// SPDX-License-Identifier: Apache-2.0
// What of the machine is not the pods'? Pure: the control plane lives on the same machine, and has to go on when pods are greedy.
import type { MachineFacts } from "./machine.ts";

/** What the services, containerd and its shims take together, KiB, with room for twice that. Source: docs/performance.md. */
const MEMORY_KIB = 2 ** 20;
/** Of a small machine they take less, since there is less for them to know of. */
const MEMORY_SHARE = 0.25;
/** Part of the processes that pods may have; a shell and the services find room in the rest. */
const PROCESSES_SHARE = 0.8;

/** What all pods may take together. */
export interface PodShare {
  readonly memoryKiB: number;
  /** Processes and threads. */
  readonly processes: number;
}

/** What of the machine pods may have. */
export function podShareOf({
  memoryKiB,
  threadsMax,
}: Pick<MachineFacts, "memoryKiB" | "threadsMax">): PodShare {
  const reserved = Math.min(MEMORY_KIB, Math.ceil(memoryKiB * MEMORY_SHARE));
  return {
    memoryKiB: memoryKiB - reserved,
    processes: Math.floor(threadsMax * PROCESSES_SHARE),
  };
}
