// SPDX-License-Identifier: Apache-2.0
// GET with watch: what happened after a revision, and then what happens.
import type { ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import { Pace } from "../../limits/fair-queue.ts";
import type { Call } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { parseSelection } from "../options/selection.ts";
import { keepTime } from "./bookmarks.ts";
import { endWith } from "./endings.ts";
import { makeEventWriter } from "./events.ts";
import { parseWatchOptions } from "./options.ts";
import { WatchStream } from "./stream.ts";
import { Teller } from "./teller.ts";
import { isTooOld, tooOld } from "./too-old.ts";

/** Streams changes until the client leaves, the time is over or `stop` is aborted. Throws a StatusError 410 before anything is sent where the revision is compacted. */
export async function watchObjects(
  call: Call,
  deps: VerbDeps,
  output: { readonly response: ServerResponse; readonly stop: AbortSignal },
): Promise<void> {
  const { revision, bookmarks, timeoutMs } = parseWatchOptions(call);
  const selection = parseSelection(call);
  const { kind, namespace, query, user } = call;
  const { watchManners } = deps;
  const asked = { kind, namespace, query, user: user.name, revision };
  if (isTooOld(deps.store, selection.scope, revision) || watchManners.hasForgotten(asked)) {
    throw tooOld(revision, deps.store);
  }
  const events = makeEventWriter(call, selection, () => deps.clock.now());
  const share = deps.shares.of(call.user.name);
  const endCount = share.addWatch();
  const { unreadMs } = deps.limits;
  const stream = new WatchStream(output.response, { waiting: share.events, unreadMs });
  endWith(stream, deps, { kind: call.kind, stop: output.stop });
  const pace = new Pace(deps, call.user.name);
  const teller = new Teller(deps, { selection, events, stream, pace });
  const bookmark = () => {
    if (bookmarks) {
      teller.bookmark();
    }
  };
  try {
    const pace = { timeoutMs: watchManners.lastingMs(timeoutMs), bookmark };
    await Promise.all([teller.run(revision), keepTime(stream, deps.clock, pace)]);
  } catch (error) {
    // The client left, or the server stops.
    if (!stream.signal.aborted) {
      deps.logger.error("watch failed", { err: messageOf(error) });
    }
  } finally {
    endCount();
    stream.end();
  }
}
