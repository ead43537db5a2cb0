// SPDX-License-Identifier: Apache-2.0

/** Source of time and delays. The product uses no other source. */
export interface Clock {
  now(): number;
  /** Returns the monotonic time in milliseconds, for durations. */
  monotonicMs(): number;
  /** Resolves after `ms` milliseconds. Rejects with the signal's reason if the signal is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
