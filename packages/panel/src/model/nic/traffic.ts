// SPDX-License-Identifier: Apache-2.0

/** Received and sent bytes since the NIC was plugged. */
export type Counters = readonly [number, number];

export interface Sample {
  readonly atMs: number;
  readonly counters: Counters;
}

interface TrafficList {
  readonly items?: readonly {
    readonly name?: string;
    readonly received?: { readonly bytes?: number };
    readonly sent?: { readonly bytes?: number };
  }[];
}

/** Returns a NIC's counters from a response of `interfacetraffic`; undefined if the response lacks the NIC. */
export function parseCounters(text: string, iface: string): Counters | undefined {
  const { items = [] } = JSON.parse(text) as TrafficList;
  const nic = items.find(({ name }) => name === iface);
  return nic && [nic.received?.bytes ?? 0, nic.sent?.bytes ?? 0];
}

export type Rate = readonly [number, number];

/** Number of samples in two minutes, with one sample every two seconds. */
const SAMPLES_MAX = 60;

/** Adds a sample. Drops earlier samples if a counter was reset. */
export function withSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  const last = samples.at(-1);
  const isReset =
    last !== undefined &&
    sample.counters.some((count, direction) => count < (last.counters[direction] ?? 0));
  return isReset ? [sample] : [...samples, sample].slice(-SAMPLES_MAX);
}

export function computeRates(samples: readonly Sample[]): readonly Rate[] {
  return samples.slice(1).map(({ atMs, counters }, index) => {
    const before = samples[index] ?? { atMs, counters };
    const seconds = Math.max((atMs - before.atMs) / 1000, 0.001);
    return [
      (counters[0] - before.counters[0]) / seconds,
      (counters[1] - before.counters[1]) / seconds,
    ];
  });
}

const UNITS = ["B/s", "kB/s", "MB/s", "GB/s"];

export function printRate(bytes: number): string {
  const step = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** step;
  return `${value.toFixed(step === 0 || value >= 100 ? 0 : 1)} ${UNITS[step] ?? ""}`;
}

/** Returns an SVG path that plots the rates of one traffic direction in a view box 100 wide and 30 high. */
export function chartPath(rates: readonly Rate[], direction: 0 | 1): string {
  const most = Math.max(1, ...rates.flat());
  const step = 100 / Math.max(1, rates.length - 1);
  const points = rates.map(
    (rate, index) =>
      `${(index * step).toFixed(1)} ${(29 - (rate[direction] / most) * 28).toFixed(1)}`,
  );
  return points.length < 2 ? "" : `M${points.join("L")}`;
}
