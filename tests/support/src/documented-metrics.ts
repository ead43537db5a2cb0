// SPDX-License-Identifier: Apache-2.0
// Which metrics does docs/reference/metrics.md name, and by which program?
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PAGE = join(import.meta.dirname, "../../../docs/reference/metrics.md");
/** In the column `by`, of what each program has. */
const EACH = "each service";

/** A row of one of its tables. */
interface DocumentedMetric {
  readonly name: string;
  readonly by: string;
}

/** All of them, in the order of the page. */
function documentedMetrics(): readonly DocumentedMetric[] {
  const rows = readFileSync(PAGE, "utf8").matchAll(/^\| `(\w+)` +\|([^|]*)\|/gm);
  return [...rows].map(([, name = "", by = ""]) => ({ name, by: by.trim() }));
}

/** What a queue looks like now: that it is told is a matter of telemetry, and that it moves of kube's queue. */
const OF_QUEUES = /^kubevirt_workqueue_(depth|retries|unfinished|longest)/;

/** Names of those that the program has, those of each service's loops among them. */
export function metricNamesOf(program: string): readonly string[] {
  return documentedMetrics().flatMap(({ name, by }) =>
    (by === program || by === EACH) && !OF_QUEUES.test(name) ? [name] : [],
  );
}

/** The samples of a metric in Prometheus' text format; of a histogram its sums and counts. */
export function samplesIn(text: string, name: string): readonly string[] {
  const sample = new RegExp(`^${name}(_sum|_count)?[ {]`);
  return text.split("\n").filter((line) => sample.test(line));
}
