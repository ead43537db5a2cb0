// SPDX-License-Identifier: Apache-2.0

export type ErrorOwner = "user" | "environment" | "bug";

/**
 * Rule for retries:
 *
 * - `backoff`: retry with growing delays
 * - `on-change`: retry when an object that the operation depends on has changed
 * - `never`: do not retry the same request
 *
 * Control loops treat `on-change` and `never` alike; see {@link minRetryDelayMs}.
 */
export type RetryRule = "never" | "backoff" | "on-change";

export interface ErrorEntry {
  readonly summary: string;
  readonly owner: ErrorOwner;
  readonly retry: RetryRule;
  readonly http: number;
}
