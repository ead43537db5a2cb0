// SPDX-License-Identifier: Apache-2.0
// What the catalogue says about one error code.

/** Who can do something about it. */
export type ErrorOwner = "user" | "environment" | "bug";

/**
 * When to try again. `backoff`: again, later and later. `on-change`: when an object that it rests on has changed;
 * `never`: when what was asked for has. To a loop both are the same; how long each waits: least-pause.ts, and pace/pauses.ts of kube.
 */
export type RetryRule = "never" | "backoff" | "on-change";

/** One entry of the catalogue. */
export interface ErrorEntry {
  /** Message; `{name}` is replaced by the detail of that name. */
  readonly summary: string;
  readonly who: ErrorOwner;
  readonly retry: RetryRule;
  /** The HTTP status with which virt-api answers. */
  readonly http: number;
}
