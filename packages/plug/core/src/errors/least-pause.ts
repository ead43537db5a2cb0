// SPDX-License-Identifier: Apache-2.0
// How long is what failed left alone, whichever loop it is in, and does its failure stop others?
import { isAppError, retryRuleOf } from "./app-error.ts";

/**
 * How long what only a change can mend is left alone at least, milliseconds. The change is tried at once where it is
 * watched; this is for the one that nobody watches. As long as the longest pause of what is tried again anyway.
 */
const SELDOM_MS = 60_000;

/** How long a step or a pass that failed is left alone at least, milliseconds: all that a retry rule means. */
export function leastPauseMs(error: unknown): number {
  return retryRuleOf(error) === "backoff" ? 0 : SELDOM_MS;
}

/** Whether another job holds the domain: no other call on it would fare better. */
export function isDomainBusy(error: unknown): boolean {
  return isAppError(error, "LIBVIRT_BUSY") || isAppError(error, "LIBVIRT_MIGRATING");
}
