// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../namespaces.ts";

/** A link that was added, removed or changed. Changes of its addresses and forwarding entries count as changes of the link. */
export interface ChangedLink {
  readonly index: number;
  readonly name?: string;
}

/** Changed links without duplicates. `unknown`: events were lost, so any link may have changed. */
export type LinkChanges = readonly ChangedLink[] | "unknown";

export interface WatchedLinks {
  /** Discards pending events. Callers must read the links afterwards, because `onChange` does not report the discarded changes. */
  discardEvents(): void;
}

/** Equivalent to: `ip monitor link address neigh`. */
export interface LinkWatch {
  /**
   * Calls `onChange` after link changes until `signal` aborts: immediately for the first change, and within a second for later changes.
   * @throws AppError with OS_DESCRIPTOR_STALE, or with OS_FILE_FAILED when the limit of watched namespaces is reached
   */
  watch(
    netns: NetnsHandle,
    onChange: (links: LinkChanges) => void,
    signal: AbortSignal,
  ): WatchedLinks;
}
