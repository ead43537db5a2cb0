// SPDX-License-Identifier: Apache-2.0
// Metrics of plugs, swaps and unplugs: durations, failure reasons, and the age of the oldest pending operation.
import { buildWiring } from "@patchbay/core/nics";
import type { NodeVmFacts } from "@patchbay/core/vm";
import {
  ifacePhaseFamily,
  oldestPendingFamily,
  pendingIfaces,
  findEndedPhases,
  newReasons,
  type MetricFamily,
  type PendingIface,
} from "@patchbay/core/metrics";
import { isVmiFinal, type HotplugType, type VirtualMachineInstance } from "@patchbay/api";
import { parseTime } from "@patchbay/kube";
import type { Cache, Change } from "@patchbay/core/interfaces";
import type { Clock } from "@patchbay/base";

/** Names of taps. The outer key is the VMI's UID, the inner key the interface's name. */
export type Taps = Map<string, ReadonlyMap<string, string>>;

export function recordTaps({ vmi, ifaces }: NodeVmFacts, taps: Taps): void {
  const withDevice = ifaces.filter(({ device }) => device !== undefined);
  const entries = withDevice.flatMap((iface) => {
    const wiring = buildWiring(iface);
    return wiring === undefined ? [] : [[iface.name, wiring.tapName] as const];
  });
  taps.set(vmi.metadata.uid ?? "", new Map(entries));
}

interface CounterSettings {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
}

type Labels = Readonly<Record<string, string>>;

export interface PlugMetrics {
  addCounter(settings: CounterSettings): (labels: Labels) => void;
  addHistogram(
    settings: CounterSettings & { readonly buckets: number[] },
  ): (labels: Labels, value: number) => void;
}

/** Histogram of the time from a request until this node observes its completion, in seconds. */
const PLUG_DURATION = {
  name: "patchbay_plug_seconds",
  help: "Duration of a plug, swap or unplug while the guest runs.",
  labelNames: ["type"],
  buckets: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300],
};

/** Histogram of the time in a phase, in seconds. Most phases take a few milliseconds. */
const PHASE_DURATION = {
  name: "patchbay_plug_duration_seconds",
  help: "Duration of each phase of a plug, swap or unplug while the guest runs.",
  labelNames: ["type", "phase"],
  buckets: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300],
};

const FAILURE_REASONS = {
  name: "patchbay_iface_failures_total",
  help: "Reasons for which ifaces wait, counted each time one is reported or a step is tried again.",
  labelNames: ["reason"],
};

interface PendingOperation {
  readonly type: HotplugType;
  readonly startedMs: number;
  /** Whether the guest ran when the operation started. Operations during a boot are not measured. */
  readonly isLive: boolean;
}

/** Pending operations. The outer key is the VMI's UID, the inner key the interface's name. */
type Pending = Map<string, ReadonlyMap<string, PendingOperation>>;

const MS_PER_SECOND = 1000;

function isRunning({ status }: VirtualMachineInstance): boolean {
  return status?.phase === "Running";
}

/**
 * Returns for how long the interface has been in its phase; 0 if unknown. The caller uses this time as the estimated age of an operation
 * that was already pending when this process first observed the VMI.
 */
function ageMs({ since }: PendingIface, clock: Clock): number {
  return since === undefined ? 0 : Math.max(0, clock.now() - parseTime(since));
}

function updatePending(
  vmi: VirtualMachineInstance,
  before: ReadonlyMap<string, PendingOperation> | undefined,
  clock: Clock,
): ReadonlyMap<string, PendingOperation> {
  if (isVmiFinal(vmi)) return new Map();
  const nowMs = clock.monotonicMs();
  return new Map(
    pendingIfaces(vmi).map((iface): [string, PendingOperation] => {
      const previous = before?.get(iface.name);
      if (previous?.type === iface.type) return [iface.name, previous];
      const startedMs = before === undefined ? nowMs - ageMs(iface, clock) : nowMs;
      return [iface.name, { type: iface.type, startedMs, isLive: isRunning(vmi) }];
    }),
  );
}

/** Measures operations until `stop` is called. `families` returns the current values of the gauges. */
export function measurePlugs(
  vmis: Cache<VirtualMachineInstance>,
  metrics: PlugMetrics,
  clock: Clock,
): { readonly families: () => readonly MetricFamily[]; readonly stop: () => void } {
  const pending: Pending = new Map();
  const observePlug = metrics.addHistogram(PLUG_DURATION);
  const countFailure = metrics.addCounter(FAILURE_REASONS);
  const observePhase = metrics.addHistogram(PHASE_DURATION);
  const measurePhases = (before: VirtualMachineInstance, after: VirtualMachineInstance): void => {
    if (!isRunning(before) || !isRunning(after)) return;
    for (const { type, phase, since, until } of findEndedPhases(before, after)) {
      const untilMs = until === undefined ? clock.now() : parseTime(until);
      observePhase({ type, phase }, Math.max(0, untilMs - parseTime(since)) / MS_PER_SECOND);
    }
  };
  const recordChange = (vmi: VirtualMachineInstance, previous?: VirtualMachineInstance): void => {
    const { uid = "" } = vmi.metadata;
    const before = pending.get(uid);
    const after = updatePending(vmi, before, clock);
    pending.set(uid, after);
    for (const reason of newReasons(previous, vmi)) countFailure({ reason });
    if (previous !== undefined) measurePhases(previous, vmi);
    if (!isRunning(vmi)) return;
    const nowMs = clock.monotonicMs();
    for (const [name, { type, startedMs: atMs, isLive }] of before ?? []) {
      if (isLive && !after.has(name)) observePlug({ type }, (nowMs - atMs) / MS_PER_SECOND);
    }
  };
  for (const vmi of vmis.list()) recordChange(vmi, vmi);
  const stop = vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") pending.delete(change.previous.metadata.uid ?? "");
    else recordChange(change.current, change.kind === "updated" ? change.previous : undefined);
  });
  const oldestSeconds = (): number => {
    const operations = [...pending.values()].flatMap((ifaces) => [...ifaces.values()]);
    const ages = operations.map(({ startedMs: atMs }) => clock.monotonicMs() - atMs);
    return Math.max(0, ...ages) / MS_PER_SECOND;
  };
  return {
    families: () => [ifacePhaseFamily(vmis.list()), oldestPendingFamily(oldestSeconds())],
    stop,
  };
}
