// SPDX-License-Identifier: Apache-2.0
// Numbers for people who watch many VMs, as Prometheus takes them.

/** One number of a family. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Numbers of one kind. Source: Prometheus exposition formats. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge";
  readonly samples: readonly Sample[];
}
