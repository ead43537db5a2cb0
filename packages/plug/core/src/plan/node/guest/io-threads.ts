// SPDX-License-Identifier: Apache-2.0
// How many threads do the work of a guest's disks, and which works for which disk.
import type { VmiSpec } from "@patchbay/api";
import { disksOf, type GuestDisk } from "../../../spec/disks.ts";
import { vcpusOf } from "../../../spec/machine.ts";

/** Numbers of threads, from 1. */
export interface IoThreads {
  readonly count: number;
  /** By name of the disk. */
  readonly ofDisks: ReadonlyMap<string, number>;
  /** Of the SCSI controller, for all disks on it. */
  readonly ofScsi?: number;
}

const NONE: IoThreads = { count: 0, ofDisks: new Map() };

/** Threads of the policy auto for each vCPU. Source: KubeVirt getIOThreadsCountType. */
const AUTO_THREADS_PER_VCPU = 2;

/** Threads that disks share: one, or with `auto` one each as far as the bound allows. */
function sharedThreads({ domain }: VmiSpec, shared: number, own: number): number {
  const most = domain.ioThreadsPolicy === "auto" ? AUTO_THREADS_PER_VCPU * vcpusOf(domain) : 1;
  return Math.max(1, Math.min(shared, most - own));
}

function hasThread({ bus }: GuestDisk): boolean {
  return bus === "virtio";
}

/**
 * Only virtio disks and the SCSI controller have threads; there are none where the VM asks for none. Those that are
 * shared come first, then those that a disk has for itself. Source: KubeVirt setIOThreads.
 */
export function ioThreadsOf(spec: VmiSpec): IoThreads {
  const all = disksOf(spec);
  const disks = all.filter(hasThread);
  const hasScsi = all.some(({ bus }) => bus === "scsi");
  const owning = disks.filter(({ hasOwnIoThread }) => hasOwnIoThread);
  const sharing = disks.filter(({ hasOwnIoThread }) => !hasOwnIoThread);
  const isAsked = spec.domain.ioThreadsPolicy !== undefined || owning.length > 0;
  if (!isAsked || (disks.length === 0 && !hasScsi)) return NONE;
  const shared = sharedThreads(spec, sharing.length, owning.length);
  const ofDisks = new Map([
    ...sharing.map(({ name }, index): [string, number] => [name, 1 + (index % shared)]),
    ...owning.map(({ name }, index): [string, number] => [name, 1 + shared + index]),
  ]);
  return { count: shared + owning.length, ofDisks, ...(hasScsi ? { ofScsi: 1 } : {}) };
}
