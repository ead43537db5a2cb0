// SPDX-License-Identifier: Apache-2.0
import type { Kind } from "../../kinds/kind.ts";

export interface WatchRequest {
  readonly kind: Kind;
  readonly namespace: string;
  readonly query: URLSearchParams;
  readonly user: string;
  /** The watch starts after this revision; 0 starts with all current objects. */
  readonly revision: number;
}

export interface WatchBehavior {
  readonly sendsIdleBookmarks: boolean;
  limitTimeoutMs(timeoutMs: number): number;
  /** Returns true to reject the watch with 410 although its revision is available, so that a test can check that clients list again. */
  mustRelist(request: WatchRequest): boolean;
}

/** Behavior without restrictions: watches last as long as requested and start at any revision of the store. */
export const DEFAULT_WATCH_BEHAVIOR: WatchBehavior = {
  sendsIdleBookmarks: true,
  limitTimeoutMs: (timeoutMs) => timeoutMs,
  mustRelist: () => false,
};
