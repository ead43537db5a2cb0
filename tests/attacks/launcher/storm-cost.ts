// SPDX-License-Identifier: Apache-2.0
// What a launcher's storm of events costs this process.
import { eventually } from "@patchbay/support";

/** What is waited for: more wakes than the throttle lets through quickly, and a time in which it has paused for long. */
const LEAST = { wakes: 12, ms: 1000 };

/** What part of a storm has cost. */
export interface StormCost {
  /** How long this part was, milliseconds. */
  readonly elapsedMs: number;
  /** Processor time of this process meanwhile, milliseconds; the tests run in it too. */
  readonly cpuMs: number;
  /** Milliseconds from wake to wake of the loop, on average. */
  readonly msPerWake: number;
}

/** Waits for the storm to wake the loop several times. `timesWoken` returns how often it was woken so far. */
export async function measureStorm(timesWoken: () => number): Promise<StormCost> {
  const before = { woken: timesWoken(), cpu: process.cpuUsage(), ms: performance.now() };
  const elapsedMs = (): number => performance.now() - before.ms;
  const woken = (): number => timesWoken() - before.woken;
  await eventually(() => woken() >= LEAST.wakes && elapsedMs() >= LEAST.ms, { withinMs: 20_000 });
  const { user, system } = process.cpuUsage(before.cpu);
  const ms = elapsedMs();
  return { elapsedMs: ms, cpuMs: (user + system) / 1000, msPerWake: ms / woken() };
}
