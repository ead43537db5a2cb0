// SPDX-License-Identifier: Apache-2.0
import { type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";

/** Shorter turns are forgotten. */
const NOTED_MS = 5;

interface Blocking {
  readonly startMs: number;
  readonly endMs: number;
  /** Processor time. */
  readonly usedMs: number;
}

function overlapMs(turn: Blocking, { startTime, duration }: PerformanceEntry): number {
  const endMs = Math.min(turn.endMs, startTime + duration);
  return Math.max(0, endMs - Math.max(turn.startMs, startTime));
}

async function observeTurns(work: () => Promise<unknown>): Promise<readonly Blocking[]> {
  const turns: Blocking[] = [];
  let [before, startMs] = [process.threadCpuUsage(), performance.now()];
  let isDone = false;
  const observe = (): void => {
    const [now, endMs] = [process.threadCpuUsage(), performance.now()];
    const usedMs = (now.user + now.system - before.user - before.system) / 1000;
    if (usedMs > NOTED_MS) turns.push({ startMs, endMs, usedMs });
    [before, startMs] = [now, endMs];
    if (!isDone) setImmediate(observe);
  };
  setImmediate(observe);
  await work().finally(() => (isDone = true));
  return turns;
}

/**
 * Returns the longest blocking of the event loop during the work, in milliseconds of processor time. Omits the collection of garbage,
 * which depends on all that the process has done before.
 */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  const collections: PerformanceEntry[] = [];
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  try {
    const turns = await observeTurns(work);
    // Entries are delivered in a later turn.
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
    const own = turns.map(
      (turn) => turn.usedMs - collections.reduce((sum, entry) => sum + overlapMs(turn, entry), 0),
    );
    return Math.max(0, ...own);
  } finally {
    observer.disconnect();
  }
}
