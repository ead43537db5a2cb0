// SPDX-License-Identifier: Apache-2.0

export type ErrorOwner = "user" | "environment" | "bug";

/**
 * When to retry.
 *
 * - `backoff`: with growing delays
 * - `on-change`: when an object that the operation depends on has changed
 * - `never`: when the request has changed
 *
 * Control loops treat the last two alike; see {@link minRetryDelayMs}.
 */
export type RetryRule = "never" | "backoff" | "on-change";

export interface ErrorEntry {
  readonly summary: string;
  readonly owner: ErrorOwner;
  readonly retry: RetryRule;
  readonly http: number;
}
