// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";

/** Maximum delay of a timer, in milliseconds. Source: Node.js "timers", setTimeout */
const TIMER_MAX_MS = 2 ** 31 - 1;

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const onAbort = (): void => {
    clearTimeout(timer);
    reject(signal.reason as Error);
  };
  const timer = setTimeout(
    () => {
      signal.removeEventListener("abort", onAbort);
      resolve(undefined);
    },
    Math.min(ms, TIMER_MAX_MS),
  );
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  return promise;
}

/** Creates the machine's clock. Each sleep ends after 24 days at the latest, because timers have this limit. */
export function createClock(): Clock {
  return { now: () => Date.now(), monotonicMs: () => performance.now(), sleep };
}
