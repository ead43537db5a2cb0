// SPDX-License-Identifier: Apache-2.0
// How many interrupt vectors a guest has, and what takes them.
import { findNicModel } from "../nic-model.ts";

/**
 * Vectors that a vCPU has for root ports and NICs. Measured on Linux 6.1 with 1 vCPU: 64 ports and 44 virtio NICs
 * (64 + 3 x 44) and 100 ports and 32 NICs work, one NIC more is probed in vain; 2 vCPUs have a little over twice as many.
 */
const VECTORS_PER_VCPU = 196;

/** What of a NIC says how many interrupt vectors it takes. */
export interface InterruptUser {
  readonly model: string;
  /** Pairs of queues. */
  readonly queues: number;
}

/** Vectors of one NIC; one of an unknown model counts as one with a single message. */
export function vectorsOf(nic: InterruptUser): number {
  return findNicModel(nic.model)?.vectors(nic.queues) ?? 1;
}

/** What takes interrupt vectors. */
interface InterruptUsers {
  readonly ports: number;
  readonly nics: readonly InterruptUser[];
  /** Devices behind ports that are no NICs. */
  readonly others: number;
}

/** One for the configuration, one for all queues: what virtio makes do with. Source: virtio 1.2 section 4.1.5.1.2. */
const VECTORS_OF_OTHERS = 2;

/** Vectors that are left, each port having taken one; negative when they do not suffice. */
export function freeVectors(vcpus: number, { ports, nics, others }: InterruptUsers): number {
  const fixed = ports + others * VECTORS_OF_OTHERS;
  return vcpus * VECTORS_PER_VCPU - nics.reduce((sum, nic) => sum + vectorsOf(nic), fixed);
}
