// SPDX-License-Identifier: Apache-2.0

/** Source of the time and of delays for all code of the product. Tests replace it. */
export interface Clock {
  now(): number;
  /** Returns the monotonic time in milliseconds, for durations. */
  monotonicMs(): number;
  /** Resolves after `ms` milliseconds. Rejects with the signal's reason if the signal is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
