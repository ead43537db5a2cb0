// SPDX-License-Identifier: Apache-2.0
// What service-net alone counts.
import type { MetricFamily } from "@patchbay/core";
import type { Metrics } from "@patchbay/telemetry";

/** Who knew the answer to a question for a name: the zone of this machine, others, or nobody was asked; and what it was. */
export interface Answered {
  readonly by: "own" | "others" | "nobody";
  readonly result: "done" | "missing" | "failed" | "refused";
}

/** How the kernel's table was written: what has changed, or all of it; or not at all. */
export type TableWrite = "changed" | "whole" | "failed";

/** Counts one. */
export interface ServiceCounters {
  readonly countAnswer: (answered: Answered) => void;
  readonly countWrite: (result: TableWrite) => void;
}

/** Adds them to the program's metrics. `countForwards`: how much is in the table now. */
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
