// SPDX-License-Identifier: Apache-2.0

/** The only source of time and delays in the product. */
export interface Clock {
  now(): number;
  /** Monotonic milliseconds, for durations. */
  monotonicMs(): number;
  /** Resolves after `ms`. Rejects with the signal's reason if it is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
