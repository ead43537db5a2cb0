// SPDX-License-Identifier: Apache-2.0
// How far guests are that leave a node, by KubeVirt's names. Source: KubeVirt metrics/virt-handler migrationstats_collector.go.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { JobStats } from "../ports/index.ts";
import type { MetricFamily, Sample } from "./family.ts";

/** A guest that is on its way, as its libvirt told last. */
export interface VmMove {
  readonly vmi: VirtualMachineInstance;
  readonly job: JobStats;
}

const PREFIX = "kubevirt_vmi_migration_";

type ReadJob = (job: JobStats) => number | undefined;

/** Its type is a counter in KubeVirt 1.9. */
const TOTAL = "data_bytes_total";

const FAMILIES: Readonly<Record<string, readonly [help: string, read: ReadJob]>> = {
  [TOTAL]: ["All that is to be moved, in bytes.", ({ totalBytes }) => totalBytes],
  // The name of KubeVirt before 1.9, which its rules still offer.
  data_total_bytes: [
    "Deprecated: kubevirt_vmi_migration_data_bytes_total.",
    ({ totalBytes }) => totalBytes,
  ],
  data_processed_bytes: ["What has been moved, in bytes.", ({ processedBytes }) => processedBytes],
  data_remaining_bytes: [
    "What is still to be moved, in bytes.",
    ({ remainingBytes }) => remainingBytes,
  ],
  dirty_memory_rate_bytes: [
    "How fast the guest writes its memory, in bytes per second.",
    ({ dirtyPagesPerSecond: pages, pageBytes }) =>
      pages === undefined || pageBytes === undefined ? undefined : pages * pageBytes,
  ],
  memory_transfer_rate_bytes: [
    "How fast its memory is moved, in bytes per second.",
    ({ memoryBytesPerSecond }) => memoryBytesPerSecond,
  ],
};

/** Of the guests that are on their way now; what libvirt has not told is left out. */
export function moveFamilies(moves: readonly VmMove[], node: string): readonly MetricFamily[] {
  return Object.entries(FAMILIES).map(([suffix, [help, read]]) => ({
    name: `${PREFIX}${suffix}`,
    help,
    type: suffix === TOTAL ? "counter" : "gauge",
    samples: moves.flatMap(({ vmi, job }): readonly Sample[] => {
      const { namespace = "", name } = vmi.metadata;
      const value = read(job);
      return value === undefined ? [] : [{ labels: { node, namespace, name }, value }];
    }),
  }));
}
