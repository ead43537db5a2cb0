// SPDX-License-Identifier: Apache-2.0
// Work queue metrics with the names of KubeVirt and client-go.
import type { MetricFamily } from "./family.ts";

/** State of one work queue. Source: client-go util/workqueue/metrics.go. */
export interface QueueStats {
  readonly depth: number;
  readonly adds: number;
  readonly retries: number;
  readonly unfinishedSeconds: number;
  readonly longestRunningSeconds: number;
}

const FAMILIES: readonly (Omit<MetricFamily, "samples"> & {
  readonly stat: keyof QueueStats;
})[] = [
  {
    name: "kubevirt_workqueue_depth",
    stat: "depth",
    type: "gauge",
    help: "Keys that wait for the loop.",
  },
  {
    name: "kubevirt_workqueue_adds_total",
    stat: "adds",
    type: "counter",
    help: "Keys that were queued for the loop.",
  },
  {
    name: "kubevirt_workqueue_retries_total",
    stat: "retries",
    type: "counter",
    help: "Keys that failed and are tried again.",
  },
  {
    name: "kubevirt_workqueue_unfinished_work_seconds",
    type: "gauge",
    stat: "unfinishedSeconds",
    help: "Age of all passes that run, together.",
  },
  {
    name: "kubevirt_workqueue_longest_running_processor_seconds",
    type: "gauge",
    stat: "longestRunningSeconds",
    help: "Age of the oldest pass that runs.",
  },
];

export function queueFamilies(queues: ReadonlyMap<string, QueueStats>): readonly MetricFamily[] {
  return FAMILIES.map(({ stat, ...family }) => ({
    ...family,
    samples: [...queues].map(([name, stats]) => ({ labels: { name }, value: stats[stat] })),
  }));
}
