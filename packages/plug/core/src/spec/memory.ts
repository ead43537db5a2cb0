// SPDX-License-Identifier: Apache-2.0
// How much memory a guest has.
import { parseQuantity, type VmiSpec } from "@patchbay/api";

/** Source: KubeVirt defaults have none; the smallest memory with which Debian's cloud kernel boots is about 100 MiB. */
const DEFAULT_MEMORY_MIB = 256;
const BYTES_PER_MIB = 2 ** 20;

/** A quantity in MiB, rounded down; what cannot be read is 0. */
export function mibOf(quantity: string | number): number {
  return Math.floor((parseQuantity(quantity) ?? 0) / BYTES_PER_MIB);
}

/**
 * The guest's memory in MiB, rounded down: `memory.guest`, else `resources.requests.memory`, else `resources.limits.memory`,
 * else the default. What cannot be read is 0: such a guest is not started. Source: KubeVirt, where a limit is the request
 * that is not given.
 */
export function memoryMiBOf({ memory, resources }: VmiSpec["domain"]): number {
  const { requests, limits } = resources ?? {};
  const quantity = memory?.guest ?? requests?.["memory"] ?? limits?.["memory"];
  return quantity === undefined ? DEFAULT_MEMORY_MIB : mibOf(quantity);
}
