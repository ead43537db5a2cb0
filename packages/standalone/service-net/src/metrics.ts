// SPDX-License-Identifier: Apache-2.0
import type { MetricFamily } from "@patchbay/core/metrics";
import type { Metrics } from "@patchbay/telemetry";

/** Source of an answer; `nobody` means a rejected query. */
export interface Answered {
  readonly by: "own" | "others" | "nobody";
  readonly result: "done" | "missing" | "failed" | "refused";
}

export type TableWrite = "changed" | "whole" | "failed";

export interface ServiceCounters {
  readonly countAnswer: (answered: Answered) => void;
  readonly countWrite: (result: TableWrite) => void;
}

export function createServiceCounters(
  metrics: Metrics,
  countForwards: () => number,
): ServiceCounters {
  const answers = metrics.addCounter({
    name: "patchbay_dns_answers_total",
    help: "Answers of the name server, by who knew them.",
    labelNames: ["by", "result"],
  });
  const writes = metrics.addCounter({
    name: "patchbay_service_table_writes_total",
    help: "Writes of the kernel's table of Services.",
    labelNames: ["result"],
  });
  metrics.addSource(() => Promise.resolve([forwardsFamily(countForwards())]));
  return {
    countAnswer: ({ by, result }) => {
      answers({ by, result });
    },
    countWrite: (result) => {
      writes({ result });
    },
  };
}

function forwardsFamily(value: number): MetricFamily {
  return {
    name: "patchbay_service_forwards",
    help: "Ports of Services that the kernel's table leads on.",
    type: "gauge",
    samples: [{ labels: {}, value }],
  };
}
