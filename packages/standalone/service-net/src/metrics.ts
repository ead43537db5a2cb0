// SPDX-License-Identifier: Apache-2.0
import type { MetricFamily } from "@patchbay/core/metrics";
import type { Metrics } from "@patchbay/telemetry";

/** Labels of a DNS answer. `by` is `own` for Services, `others` for the host's resolvers, and `nobody` for rejected queries. */
export interface ReplyLabels {
  readonly by: "own" | "others" | "nobody";
  readonly result: "done" | "missing" | "failed" | "refused";
}

export type TableWrite = "changed" | "whole" | "failed";

export interface ServiceCounters {
  readonly countReply: (labels: ReplyLabels) => void;
  readonly countWrite: (result: TableWrite) => void;
}

export function createServiceCounters(
  metrics: Metrics,
  countForwards: () => number,
): ServiceCounters {
  const addAnswer = metrics.addCounter({
    name: "patchbay_dns_answers_total",
    help: "DNS answers, by source and result.",
    labelNames: ["by", "result"],
  });
  const addWrite = metrics.addCounter({
    name: "patchbay_service_table_writes_total",
    help: "Writes of the kernel's table of Services, by scope and result.",
    labelNames: ["result"],
  });
  metrics.addSource(() => Promise.resolve([forwardsFamily(countForwards())]));
  return {
    countReply: ({ by, result }) => {
      addAnswer({ by, result });
    },
    countWrite: (result) => {
      addWrite({ result });
    },
  };
}

function forwardsFamily(value: number): MetricFamily {
  return {
    name: "patchbay_service_forwards",
    help: "Service ports in the kernel's forwarding table.",
    type: "gauge",
    samples: [{ labels: {}, value }],
  };
}
