// SPDX-License-Identifier: Apache-2.0
// How long is a step on a node left alone that failed, and does its failure stop others?
import { isAppError, retryRuleOf } from "./app-error.ts";

/** How long what only a change can mend is left alone at least, milliseconds. */
const SELDOM_MS = 60_000;

/** How long a step that failed is left alone at least, milliseconds. */
export function leastPauseMs(error: unknown): number {
  return retryRuleOf(error) === "backoff" ? 0 : SELDOM_MS;
}

/** Whether another job holds the domain: no other call on it would fare better. */
export function isDomainBusy(error: unknown): boolean {
  return isAppError(error, "LIBVIRT_BUSY") || isAppError(error, "LIBVIRT_MIGRATING");
}
