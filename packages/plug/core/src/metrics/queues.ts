// SPDX-License-Identifier: Apache-2.0
// How are the loops of a program getting on with their keys? Names are KubeVirt's, which are client-go's.
import type { MetricFamily } from "./family.ts";

/** What a queue of keys looks like at one moment. Source: client-go util/workqueue/metrics.go */
export interface QueueFigures {
  /** Keys that wait to be taken. */
  readonly depth: number;
  /** Keys that were queued so far. */
  readonly adds: number;
  /** Keys that were left alone after a failure so far. */
  readonly retries: number;
  /** For how long the keys that are worked on have been, all together, seconds. */
  readonly unfinishedSeconds: number;
  /** For how long the one of them that takes longest has been, seconds. */
  readonly longestRunningSeconds: number;
}

const FAMILIES: readonly (Omit<MetricFamily, "samples"> & {
  readonly figure: keyof QueueFigures;
})[] = [
  {
    name: "kubevirt_workqueue_depth",
    figure: "depth",
    type: "gauge",
    help: "Keys that wait for the loop.",
  },
  {
    name: "kubevirt_workqueue_adds_total",
    figure: "adds",
    type: "counter",
    help: "Keys that were queued for the loop.",
  },
  {
    name: "kubevirt_workqueue_retries_total",
    figure: "retries",
    type: "counter",
    help: "Keys that failed and are tried again.",
  },
  {
    name: "kubevirt_workqueue_unfinished_work_seconds",
    type: "gauge",
    figure: "unfinishedSeconds",
    help: "Age of all passes that run, together.",
  },
  {
    name: "kubevirt_workqueue_longest_running_processor_seconds",
    type: "gauge",
    figure: "longestRunningSeconds",
    help: "Age of the oldest pass that runs.",
  },
];

/** The families of a program's queues, by the name of each. */
export function queueFamilies(queues: ReadonlyMap<string, QueueFigures>): readonly MetricFamily[] {
  return FAMILIES.map(({ figure, ...family }) => ({
    ...family,
    samples: [...queues].map(([name, figures]) => ({ labels: { name }, value: figures[figure] })),
  }));
}
