// SPDX-License-Identifier: Apache-2.0
// Metrics in docs/reference/metrics.md, by program.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PAGE = join(import.meta.dirname, "../../../docs/reference/metrics.md");
/** Entries of the column `by` that name groups of programs. */
const EACH = "each service";

interface DocumentedMetric {
  readonly name: string;
  readonly by: string;
}

function documentedMetrics(): readonly DocumentedMetric[] {
  const rows = readFileSync(PAGE, "utf8").matchAll(/^\| `(\w+)` +\|([^|]*)\|/gm);
  return [...rows].map(([, name = "", by = ""]) => ({ name, by: by.trim() }));
}

/** Queue gauges: telemetry exports them, kube's queue updates them. */
const OF_QUEUES = /^kubevirt_workqueue_(depth|retries|unfinished|longest)/;

/** Metric names of the program, including those of its loops. */
export function metricNamesOf(program: string): readonly string[] {
  return documentedMetrics().flatMap(({ name, by }) =>
    (by === program || by === EACH) && !OF_QUEUES.test(name) ? [name] : [],
  );
}

/** A metric's samples in Prometheus' text format; of a histogram its sums and counts. */
export function samplesIn(text: string, name: string): readonly string[] {
  const sample = new RegExp(`^${name}(_sum|_count)?[ {]`);
  return text.split("\n").filter((line) => sample.test(line));
}

/** Returns exported metrics that the page does not list. */
export function findUndocumented(text: string): readonly string[] {
  const documented = new Set(documentedMetrics().map(({ name }) => name));
  const exported = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name = ""]) => name);
  return exported.filter((name) => !documented.has(name));
}
