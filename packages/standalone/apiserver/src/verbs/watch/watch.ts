// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import { messageOf, type Clock } from "@patchbay/base";

import { TimeSlice } from "../../limits/fair-queue.ts";
import { shareKeyOf } from "../../limits/limits.ts";
import type { Call } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { parseSelection } from "../options/selection.ts";
import { DEFINITIONS_BUCKET } from "../../custom/definition.ts";
import type { Kind } from "../../kinds/kind.ts";
import { forbiddenValue } from "../../meta/causes.ts";
import { invalid } from "../../meta/status.ts";
import {
  checkRevisionMatch,
  parseCount,
  parseFlag,
  parseRevision,
} from "../options/list-options.ts";
import { makeEventWriter } from "./events.ts";
import { WatchStream } from "./stream.ts";
import { WatchSender, isTooOld, tooOldError } from "./sender.ts";

/** Timeout of a watch without timeoutSeconds. Source: kube-apiserver min-request-timeout. */
const DEFAULT_TIMEOUT_SECONDS = 1800;

interface WatchOptions {
  /** The watch starts after this revision; 0 starts with all current objects. */
  readonly revision: number;
  readonly wantsBookmarks: boolean;
  readonly timeoutMs: number;
}

function parseWatchOptions(call: Call): WatchOptions {
  const { query } = call;
  if (query.has("sendInitialEvents")) {
    throw invalid({ group: "meta.k8s.io", resource: "listoptions", kind: "ListOptions" }, "", [
      forbiddenValue(
        "sendInitialEvents",
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
      ),
    ]);
  }
  checkRevisionMatch(query, true);
  const seconds = parseCount(query.get("timeoutSeconds"));
  return {
    revision: parseRevision(query.get("resourceVersion")) ?? 0,
    wantsBookmarks: parseFlag(query.get("allowWatchBookmarks") ?? "false"),
    timeoutMs: (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS) * 1000,
  };
}

function endOnStop(
  stream: WatchStream,
  deps: Pick<VerbDeps, "store" | "registry">,
  cause: { readonly kind: Kind; readonly stop: AbortSignal },
): void {
  const { stop } = cause;
  const { group, version, resource } = cause.kind;
  const end = () => {
    stream.end();
  };
  stop.addEventListener("abort", end);
  const unfollow = deps.store.follow({ bucket: DEFINITIONS_BUCKET }, () => {
    if (deps.registry.find(group, version, resource) === undefined) {
      end();
    }
  });
  stream.signal.addEventListener("abort", () => {
    stop.removeEventListener("abort", end);
    unfollow();
  });
}

/** Time between bookmarks. Source: kube-apiserver, defaultBookmarkFrequency. */
const BOOKMARK_INTERVAL_MS = 60_000;
/** Time between the last bookmark and the end of the watch. Source: kube-apiserver cacher bookmarkBeforeDeadline. */
const LAST_BOOKMARK_LEAD_MS = 2000;

async function runTimer(
  stream: WatchStream,
  clock: Clock,
  timer: { readonly timeoutMs: number; readonly sendBookmark: () => void },
): Promise<void> {
  const endMs = clock.monotonicMs() + timer.timeoutMs;
  // A timer may fire up to 1 ms early. The loop ends when less than 1 ms remains; otherwise it would send another bookmark.
  for (
    let remainingMs = timer.timeoutMs;
    remainingMs >= 1;
    remainingMs = endMs - clock.monotonicMs()
  ) {
    const untilBookmarkMs =
      remainingMs > LAST_BOOKMARK_LEAD_MS ? remainingMs - LAST_BOOKMARK_LEAD_MS : remainingMs;
    await clock.sleep(Math.min(untilBookmarkMs, BOOKMARK_INTERVAL_MS), stream.signal);
    timer.sendBookmark();
  }
  stream.end();
}

/** Serves a watch until it ends. Throws a StatusError 410 if the revision is compacted. */
export async function watchObjects(
  call: Call,
  deps: VerbDeps,
  output: { readonly response: ServerResponse; readonly stop: AbortSignal },
): Promise<void> {
  const { revision, wantsBookmarks, timeoutMs } = parseWatchOptions(call);
  const selection = parseSelection(call);
  const { kind, namespace, query, user } = call;
  const { watchBehavior } = deps;
  const request = { kind, namespace, query, user: user.name, revision };
  if (isTooOld(deps.store, selection.scope, revision) || watchBehavior.mustRelist(request)) {
    throw tooOldError(revision, deps.store);
  }
  const eventWriter = makeEventWriter(call, selection, () => deps.clock.now());
  const releaseWatch = deps.quotas.addWatch(user);
  const timeSlice = new TimeSlice(deps, call);
  const stream = new WatchStream(output.response, {
    unsentEvents: deps.quotas.unsentEvents,
    shareKey: shareKeyOf(user),
    unreadMs: deps.limits.unreadMs,
    timeSlice,
  });
  endOnStop(stream, deps, { kind: call.kind, stop: output.stop });
  const sender = new WatchSender(deps, { selection, events: eventWriter, stream, timeSlice, user });
  const sendBookmark = () => {
    if (wantsBookmarks) {
      sender.sendBookmark();
    }
  };
  try {
    const timer = { timeoutMs: watchBehavior.limitTimeoutMs(timeoutMs), sendBookmark };
    await Promise.all([sender.run(revision), runTimer(stream, deps.clock, timer)]);
  } catch (error) {
    // The end of the stream aborts pending writes and timers. Their errors are not logged.
    if (!stream.signal.aborted) {
      deps.logger.error("watch failed", { err: messageOf(error) });
    }
  } finally {
    releaseWatch();
    stream.end();
  }
}
