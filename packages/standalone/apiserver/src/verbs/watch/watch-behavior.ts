// SPDX-License-Identifier: Apache-2.0
// How long watches last, where they may resume and when they get bookmarks.
import type { Kind } from "../../kinds/kind.ts";

export interface WatchRequest {
  readonly kind: Kind;
  readonly namespace: string;
  readonly query: URLSearchParams;
  readonly user: string;
  /** 0 starts with all current objects. */
  readonly revision: number;
}

export interface WatchBehavior {
  readonly sendsIdleBookmarks: boolean;
  limitTimeoutMs(timeoutMs: number): number;
  /** Whether to answer 410 although the store still has the revision. */
  mustRelist(request: WatchRequest): boolean;
}

/** As long as clients request, and as long as the store has the revision. */
export const DEFAULT_WATCH_BEHAVIOR: WatchBehavior = {
  sendsIdleBookmarks: true,
  limitTimeoutMs: (timeoutMs) => timeoutMs,
  mustRelist: () => false,
};

/** Strict watches end after 1 to 2 times this, so that tests see the end. */
