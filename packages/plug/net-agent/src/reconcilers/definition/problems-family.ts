// SPDX-License-Identifier: Apache-2.0
// Metric of the problems that this node has with definitions.
import type { MetricFamily } from "@patchbay/core";
import type { Judged } from "./deps.ts";

/** The definitions that have a problem on this node, by reason; one with two problems counts under both. */
export function problemsFamily(judged: Iterable<Pick<Judged, "reasons">>): MetricFamily {
  const reasons = [...judged].flatMap((each) => [...new Set(each.reasons)]);
  const samples = [...Map.groupBy(reasons, (reason) => reason)].map(([reason, all]) => ({
    labels: { reason },
    value: all.length,
  }));
  return {
    name: "patchbay_network_problems",
    help: "Definitions of networks that have a problem on this node, by reason.",
    type: "gauge",
    samples,
  };
}
