// SPDX-License-Identifier: Apache-2.0
// Time as the product sees it.

/** Time to read and to wait for: no other code asks the machine what time it is. */
export interface Clock {
  /** Wall time in milliseconds since 1970. */
  now(): number;
  /** Milliseconds that never go backwards; for durations. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}
