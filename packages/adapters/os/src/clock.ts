// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Longest delay of a timer. Source: Node.js "timers", setTimeout */
const TIMER_MAX_MS = 2 ** 31 - 1;

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const refuse = (): void => {
    clearTimeout(timer);
    reject(signal.reason as Error);
  };
  const timer = setTimeout(
    () => {
      signal.removeEventListener("abort", refuse);
      resolve(undefined);
    },
    Math.min(ms, TIMER_MAX_MS),
  );
  signal.addEventListener("abort", refuse);
  if (signal.aborted) refuse();
  return promise;
}

/** The machine's clock. A sleep of more than 24 days ends after 24 days. */
export function createClock(): Clock {
  return { now: () => Date.now(), monotonicMs: () => performance.now(), sleep };
}
