// SPDX-License-Identifier: Apache-2.0
// What tells that links of a network namespace have changed.
import type { NetnsHandle } from "../namespaces.ts";

/** A link that came, went or changed, or of which an address or a forwarding entry did. */
export interface ChangedLink {
  readonly index: number;
  /** Its last name; absent where the kernel did not say it. */
  readonly name?: string;
}

/** Each link once; `unknown`: more has happened than could be told, so that any may have changed. */
export type LinkChanges = readonly ChangedLink[] | "unknown";

/** A namespace that is watched. */
export interface WatchedLinks {
  /** What happened until now is not told any more: whoever calls this looks afterwards. */
  catchUp(): void;
}

/** Watches links. Equivalent to: `ip monitor link address neigh`. */
export interface LinkWatch {
  /**
   * Calls `changed` when links of the namespace have changed after this call, until aborted. The first change is told at
   * once, what follows it within a second however much it is.
   * @throws AppError with OS_FILE_FAILED when no more can be watched, OS_DESCRIPTOR_STALE
   */
  watch(
    netns: NetnsHandle,
    changed: (links: LinkChanges) => void,
    signal: AbortSignal,
  ): WatchedLinks;
}
