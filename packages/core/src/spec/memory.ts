// SPDX-License-Identifier: Apache-2.0
// How much memory a guest has.
import { parseQuantity, type VmiSpec } from "@patchbay/api";

/** Source: KubeVirt defaults have none; the smallest memory with which Debian's cloud kernel boots is about 100 MiB. */
const DEFAULT_MEMORY_MIB = 256;
const BYTES_PER_MIB = 2 ** 20;

/**
 * The guest's memory in MiB, rounded down: `memory.guest`, else `resources.requests.memory`, else the default. What
 * cannot be read is 0: such a guest is not started.
 */
export function memoryMiBOf({ memory, resources }: VmiSpec["domain"]): number {
  const quantity = memory?.guest ?? resources?.requests?.["memory"];
  if (quantity === undefined) return DEFAULT_MEMORY_MIB;
  return Math.floor((parseQuantity(quantity) ?? 0) / BYTES_PER_MIB);
}
