// SPDX-License-Identifier: Apache-2.0
// What time is it, on the real machine?
import type { Clock } from "@patchbay/core/ports";

/** Longest wait that a timer takes, milliseconds. Source: Node.js "timers", setTimeout. */
const TIMER_MAX_MS = 2 ** 31 - 1;

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const refuse = (): void => {
    clearTimeout(timer);
    reject(signal.reason as Error); // an AbortSignal's reason is what the caller aborted with
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

/** The machine's clock. A wait of more than 24 days ends after 24 days. */
export function createClock(): Clock {
  return { now: () => Date.now(), monotonicMs: () => performance.now(), sleep };
}
