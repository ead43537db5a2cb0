// SPDX-License-Identifier: Apache-2.0

export type ErrorOwner = "user" | "environment" | "bug";

/**
 * Rule for retries. `backoff`: retry with growing delays. `on-change`: retry after a relevant object has changed. `never`: never repeat the
 * same request.
 */
export type RetryRule = "never" | "backoff" | "on-change";

export interface ErrorEntry {
  readonly summary: string;
  readonly owner: ErrorOwner;
  readonly retry: RetryRule;
  readonly http: number;
}
