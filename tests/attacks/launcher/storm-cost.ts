// SPDX-License-Identifier: Apache-2.0
// Processor cost of a launcher's event storm.
import { eventually } from "@patchbay/support";

/** Thresholds: more wakes than the throttle passes quickly, and time for long pauses. */
const LEAST = { wakes: 12, ms: 1000 };

export interface StormCost {
  /** Length of this part, milliseconds. */
  readonly elapsedMs: number;
  /** Processor time of this process, milliseconds, including the tests. */
  readonly cpuMs: number;
  /** Average time between wakes of the loop, milliseconds. */
  readonly msPerWake: number;
}

/** The cheapest measurement counts, because other work of this process only adds to the cost. */
const MEASUREMENTS = 3;

async function measureOnce(timesWoken: () => number): Promise<StormCost> {
  const before = { woken: timesWoken(), cpu: process.cpuUsage(), ms: performance.now() };
  const elapsedMs = (): number => performance.now() - before.ms;
  const woken = (): number => timesWoken() - before.woken;
  await eventually(() => woken() >= LEAST.wakes && elapsedMs() >= LEAST.ms, { withinMs: 20_000 });
  const { user, system } = process.cpuUsage(before.cpu);
  const ms = elapsedMs();
  return { elapsedMs: ms, cpuMs: (user + system) / 1000, msPerWake: ms / woken() };
}

/** Waits several times until the storm has woken the loop several times. `timesWoken` returns the wakes so far. */
export async function measureStorm(timesWoken: () => number): Promise<StormCost> {
  const costs: StormCost[] = [];
  while (costs.length < MEASUREMENTS) costs.push(await measureOnce(timesWoken));
  const [least] = costs.toSorted((a, b) => a.cpuMs / a.elapsedMs - b.cpuMs / b.elapsedMs);
  if (least === undefined) throw new Error("nothing was measured");
  return least;
}
