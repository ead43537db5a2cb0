// SPDX-License-Identifier: Apache-2.0
import { queueFamilies, type MetricFamily, type QueueStats } from "@patchbay/core/metrics";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

export interface ReconcilePass {
  readonly name: string;
  readonly result: "done" | "after" | "failed";
  readonly seconds: number;
  /** Time for which the object's key was queued before this pass. */
  readonly waitedSeconds: number;
}

export interface ApiRequest {
  readonly verb: string;
  readonly resource: string;
}

type MetricLabels = Readonly<Record<string, string>>;

interface CounterSettings {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
}

/** Settings of a histogram. `buckets` are ascending upper bounds. */
interface HistogramSettings extends CounterSettings {
  readonly buckets: number[];
}

export interface Metrics {
  countApiRequest(request: ApiRequest): void;
  countServed(call: string): void;
  /**
   * Updates `patchbay_reconcile_total{reconciler,result}`, `kubevirt_workqueue_work_duration_seconds{name}` and
   * `kubevirt_workqueue_queue_duration_seconds{name}`. `name` combines program and loop, as in KubeVirt.
   */
  observeReconcile(pass: ReconcilePass): void;
  /** Adds the metrics `kubevirt_workqueue_…{name}` of a loop's queue. `print` calls `read`. */
  addQueue(name: string, read: () => QueueStats): void;
  /** Adds a counter and returns its increment function. @throws Error if the name was added before */
  addCounter(settings: CounterSettings): (labels: MetricLabels) => void;
  /** Adds a histogram and returns its observe function. @throws Error if the name was added before */
  addHistogram(settings: HistogramSettings): (labels: MetricLabels, value: number) => void;
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
  print(): Promise<string>;
  readonly contentType: string;
}

const RECONCILE_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];

function createReconcileMetrics(
  component: string,
  registers: Registry[],
): Pick<Metrics, "observeReconcile"> {
  const total = new Counter({
    name: "patchbay_reconcile_total",
    help: "Passes of a loop over one key.",
    labelNames: ["reconciler", "result"],
    registers,
  });
  const shared = { labelNames: ["name"], buckets: RECONCILE_SECONDS, registers };
  const duration = new Histogram({
    name: "kubevirt_workqueue_work_duration_seconds",
    ...shared,
    help: "Duration of one pass.",
  });
  const wait = new Histogram({
    name: "kubevirt_workqueue_queue_duration_seconds",
    ...shared,
    help: "How long a key waited for the pass.",
  });
  return {
    observeReconcile: ({ name: reconciler, result, seconds, waitedSeconds }) => {
      const name = `${component}-${reconciler}`;
      total.inc({ reconciler, result });
      duration.observe({ name }, seconds);
      wait.observe({ name }, waitedSeconds);
    },
  };
}

function createCallMetrics(
  registers: Registry[],
): Pick<Metrics, "countApiRequest" | "countServed"> {
  const sentRequests = new Counter({
    name: "patchbay_api_requests_total",
    help: "Requests that were sent to the API server.",
    labelNames: ["verb", "resource"],
    registers,
  });
  const servedCalls = new Counter({
    name: "patchbay_served_total",
    help: "Calls that were answered.",
    labelNames: ["call"],
    registers,
  });
  return {
    countApiRequest: ({ verb, resource }) => {
      sentRequests.inc({ verb, resource });
    },
    countServed: (call) => {
      servedCalls.inc({ call });
    },
  };
}

function createCustomMetrics(registers: Registry[]): Pick<Metrics, "addCounter" | "addHistogram"> {
  return {
    addCounter: (settings) => {
      const counter = new Counter({ ...settings, registers });
      return (labels) => {
        counter.inc(labels);
      };
    },
    addHistogram: (settings) => {
      const histogram = new Histogram({ ...settings, registers });
      return (labels, value) => {
        histogram.observe(labels, value);
      };
    },
  };
}

function addFamily({ name, help, type, samples }: MetricFamily, registers: Registry[]): void {
  const usedLabels = new Set(samples.flatMap(({ labels }) => Object.keys(labels)));
  // Without samples, the label `none` prevents prom-client from reporting the value 0.
  const labelNames = samples.length === 0 ? ["none"] : [...usedLabels];
  const settings = { name, help, labelNames, registers };
  const family = type === "counter" ? new Counter(settings) : new Gauge(settings);
  for (const { labels, value } of samples) family.inc(labels, value);
}

async function printFamilies(families: readonly MetricFamily[]): Promise<string> {
  const registry = new Registry();
  for (const family of families) addFamily(family, [registry]);
  return registry.metrics();
}

export function createMetrics(component: string): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const queues = new Map<string, () => QueueStats>();
  const readQueues = (): readonly MetricFamily[] =>
    queueFamilies(new Map([...queues].map(([name, read]) => [name, read()])));
  const sources: (() => Promise<readonly MetricFamily[]>)[] = [() => Promise.resolve(readQueues())];
  return {
    ...createReconcileMetrics(component, registers),
    addQueue: (name, read) => {
      queues.set(`${component}-${name}`, read);
    },
    ...createCallMetrics(registers),
    ...createCustomMetrics(registers),
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
