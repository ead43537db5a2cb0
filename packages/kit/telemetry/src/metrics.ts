// SPDX-License-Identifier: Apache-2.0
// Which numbers does a program count, and how are they read?
import type { MetricFamily, PendingIface } from "@patchbay/core";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** One pass of a loop. */
export interface ReconcilePass {
  readonly name: string;
  readonly result: "done" | "after" | "failed";
  readonly seconds: number;
}

/** A request to the API server, or another thing that is counted by what it does to which resource. */
export interface ApiRequest {
  readonly verb: string;
  readonly resource: string;
}

/** The metrics of one program. */
export interface Metrics {
  /** `patchbay_api_requests_total{verb,resource}`: requests that were sent to the API server. */
  countApiRequest(request: ApiRequest): void;
  /** `patchbay_served_total{call}`: calls that were taken. */
  countServed(call: string): void;
  /** `patchbay_reconcile_total{reconciler,result}`, `patchbay_reconcile_seconds{reconciler}`. */
  observeReconcile(pass: ReconcilePass): void;
  /** `patchbay_plug_seconds{type}`: from the request for an iface to its end, as this program sees it. */
  observePlug(type: PendingIface["type"], seconds: number): void;
  /** `patchbay_iface_failures_total{reason}`: a reason was told of an iface, or told again after another attempt. */
  countIfaceFailure(reason: string): void;
  /** Adds numbers that are read each time they are asked for. */
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
  /** All metrics in the text format of Prometheus. */
  print(): Promise<string>;
  /** Content type of {@link Metrics.print}. */
  readonly contentType: string;
}

/** Bounds of histograms, seconds. */
const RECONCILE_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];
const PLUG_SECONDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300];

function createReconcileMetrics(registers: Registry[]): Pick<Metrics, "observeReconcile"> {
  const total = new Counter({
    name: "patchbay_reconcile_total",
    help: "Passes of a loop over one key.",
    labelNames: ["reconciler", "result"],
    registers,
  });
  const duration = new Histogram({
    name: "patchbay_reconcile_seconds",
    help: "Duration of one pass.",
    labelNames: ["reconciler"],
    buckets: RECONCILE_SECONDS,
    registers,
  });
  return {
    observeReconcile: ({ name, result, seconds }) => {
      total.inc({ reconciler: name, result });
      duration.observe({ reconciler: name }, seconds);
    },
  };
}

function createCallMetrics(
  registers: Registry[],
): Pick<Metrics, "countApiRequest" | "countServed"> {
  const sent = new Counter({
    name: "patchbay_api_requests_total",
    help: "Requests that were sent to the API server.",
    labelNames: ["verb", "resource"],
    registers,
  });
  const served = new Counter({
    name: "patchbay_served_total",
    help: "Calls that were answered.",
    labelNames: ["call"],
    registers,
  });
  return {
    countApiRequest: ({ verb, resource }) => {
      sent.inc({ verb, resource });
    },
    countServed: (call) => {
      served.inc({ call });
    },
  };
}

function createPlugMetrics(
  registers: Registry[],
): Pick<Metrics, "observePlug" | "countIfaceFailure"> {
  const duration = new Histogram({
    name: "patchbay_plug_seconds",
    help: "Duration of a plug, swap or unplug while the guest runs.",
    labelNames: ["type"],
    buckets: PLUG_SECONDS,
    registers,
  });
  const failures = new Counter({
    name: "patchbay_iface_failures_total",
    help: "Reasons for which ifaces wait, counted each time one is reported or a step is tried again.",
    labelNames: ["reason"],
    registers,
  });
  return {
    observePlug: (type, seconds) => {
      duration.observe({ type }, seconds);
    },
    countIfaceFailure: (reason) => {
      failures.inc({ reason });
    },
  };
}

function addFamily({ name, help, type, samples }: MetricFamily, registers: Registry[]): void {
  const used = new Set(samples.flatMap(({ labels }) => Object.keys(labels)));
  // A family with neither labels nor samples would be told to be 0.
  const labelNames = samples.length === 0 ? ["none"] : [...used];
  const settings = { name, help, labelNames, registers };
  const family = type === "counter" ? new Counter(settings) : new Gauge(settings);
  for (const { labels, value } of samples) family.inc(labels, value);
}

/** Numbers of one moment, which nobody keeps. */
async function printFamilies(families: readonly MetricFamily[]): Promise<string> {
  const registry = new Registry();
  for (const family of families) addFamily(family, [registry]);
  return registry.metrics();
}

/** New metrics, all at zero. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const sources: (() => Promise<readonly MetricFamily[]>)[] = [];
  return {
    ...createReconcileMetrics(registers),
    ...createCallMetrics(registers),
    ...createPlugMetrics(registers),
    addSource: (read) => {
      sources.push(read);
    },
    async print(): Promise<string> {
      const families = await Promise.all(sources.map((read) => read()));
      return `${await registry.metrics()}${await printFamilies(families.flat())}`;
    },
    contentType: registry.contentType,
  };
}
