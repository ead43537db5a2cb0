// SPDX-License-Identifier: Apache-2.0
// Which numbers does a program count, and how are they read?
import { queueFamilies, type MetricFamily, type QueueFigures } from "@patchbay/core";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** One pass of a loop. */
export interface ReconcilePass {
  readonly name: string;
  readonly result: "done" | "after" | "failed";
  readonly seconds: number;
  /** For how long nobody was free for its key. */
  readonly waitedSeconds: number;
}

/** A request to the API server, or another thing that is counted by what it does to which resource. */
export interface ApiRequest {
  readonly verb: string;
  readonly resource: string;
}

/** Labels of one sample, by name. */
type MetricLabels = Readonly<Record<string, string>>;

/** What a counter is called, what it counts, and which labels its samples have. */
interface CounterSettings {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
}

/** The same of a histogram, with the upper bounds of its buckets, ascending. */
interface HistogramSettings extends CounterSettings {
  readonly buckets: number[];
}

/** The metrics of one program. */
export interface Metrics {
  /** `patchbay_api_requests_total{verb,resource}`: requests that were sent to the API server. */
  countApiRequest(request: ApiRequest): void;
  /** `patchbay_served_total{call}`: calls that were taken. */
  countServed(call: string): void;
  /**
   * `patchbay_reconcile_total{reconciler,result}`, `kubevirt_workqueue_work_duration_seconds{name}`,
   * `kubevirt_workqueue_queue_duration_seconds{name}`; the name is the program's and the loop's, as in KubeVirt.
   */
  observeReconcile(pass: ReconcilePass): void;
  /** The other `kubevirt_workqueue_…{name}` of a loop, read each time they are asked for. */
  addQueue(name: string, read: () => QueueFigures): void;
  /** A counter of the program's own work; what it gives counts one. A name is added once. */
  addCounter(settings: CounterSettings): (labels: MetricLabels) => void;
  /** A histogram of the program's own work; what it gives takes a value. A name is added once. */
  addHistogram(settings: HistogramSettings): (labels: MetricLabels, value: number) => void;
  /** Adds numbers that are read each time they are asked for. */
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
  /** All metrics in the text format of Prometheus. */
  print(): Promise<string>;
  /** Content type of {@link Metrics.print}. */
  readonly contentType: string;
}

/** Bounds of a pass's duration, and of the wait for it, seconds. */
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

function createOwnMetrics(registers: Registry[]): Pick<Metrics, "addCounter" | "addHistogram"> {
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

/** New metrics of a program, all at zero. */
export function createMetrics(component: string): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const queues = new Map<string, () => QueueFigures>();
  const readQueues = (): readonly MetricFamily[] =>
    queueFamilies(new Map([...queues].map(([name, read]) => [name, read()])));
  const sources: (() => Promise<readonly MetricFamily[]>)[] = [() => Promise.resolve(readQueues())];
  return {
    ...createReconcileMetrics(component, registers),
    addQueue: (name, read) => {
      queues.set(`${component}-${name}`, read);
    },
    ...createCallMetrics(registers),
    ...createOwnMetrics(registers),
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
