// SPDX-License-Identifier: Apache-2.0
// When does a watch send bookmarks, and when is its time over?
import type { Clock } from "@patchbay/core/ports";
import type { WatchStream } from "./stream.ts";

/** Bookmarks are sent this often, and before the end. Source: kube-apiserver, defaultBookmarkFrequency. */
const BOOKMARK_MS = 60_000;
/** The last one comes so long before the end. Source: kube-apiserver cacher bookmarkBeforeDeadline. */
const LAST_BOOKMARK_MS = 2000;

/** Ends the stream when its time is over, with a bookmark; sends others until then. */
export async function keepTime(
  stream: WatchStream,
  clock: Clock,
  pace: { readonly timeoutMs: number; readonly bookmark: () => void },
): Promise<void> {
  const endMs = clock.monotonicMs() + pace.timeoutMs;
  // A timer may fire a part of a millisecond early: that is no time for one bookmark more.
  for (let left = pace.timeoutMs; left >= 1; left = endMs - clock.monotonicMs()) {
    const untilLast = left > LAST_BOOKMARK_MS ? left - LAST_BOOKMARK_MS : left;
    await clock.sleep(Math.min(untilLast, BOOKMARK_MS), stream.signal);
    pace.bookmark();
  }
  stream.end();
}
