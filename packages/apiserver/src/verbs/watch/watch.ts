// SPDX-License-Identifier: Apache-2.0
// GET with watch: what happened after a revision, and then what happens.
import type { ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import { DEFINITIONS_BUCKET } from "../../custom/definition.ts";
import { type StatusError, expired, invalid } from "../../meta/status.ts";
import type { Kind } from "../../kinds/kind.ts";
import { forbiddenValue } from "../../meta/causes.ts";
import { printJson } from "../../objects/json.ts";
import { Pace } from "../../limits/pace.ts";
import type { Change, StoredObject } from "../../storage/store.ts";
import type { Call, Deps } from "../call.ts";
import { parseCount, parseFlag, parseRevision } from "../options/options.ts";
import { checkRevisionMatch } from "../options/revision-match.ts";
import { type Selection, parseSelection, select } from "../options/selection.ts";
import { type EventWriter, makeEventWriter } from "./events.ts";
import { WatchStream } from "./stream.ts";

/** Bookmarks are sent this often, and before the end. Source: kube-apiserver, defaultBookmarkFrequency. */
const BOOKMARK_MS = 60_000;
/** The last one comes so long before the end. Source: kube-apiserver cacher bookmarkBeforeDeadline. */
const LAST_BOOKMARK_MS = 2000;
/** A watch without timeoutSeconds ends after this long: clients come again. Source: kube-apiserver min-request-timeout. */
const DEFAULT_TIMEOUT_SECONDS = 1800;
/** A store begins with it, and no answer has it: clients that name it want to be told that it is too old. */
const EMPTY_REVISION = 1;
/** Changes that are read from the log at once for a watch that is behind. */
const CHANGES_AT_ONCE = 200;
/** Characters of objects that are printed before the client is waited for. */
const CHUNK_LENGTH = 64 * 1024;
/** Bytes that a chunk, or what is read from the log at once, is taken to have. */
const ROOM_BYTES = 256 * 1024;

interface WatchOptions {
  readonly revision: number;
  readonly bookmarks: boolean;
  readonly timeoutMs: number;
}

function parseOptions(call: Call): WatchOptions {
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
    bookmarks: parseFlag(query.get("allowWatchBookmarks") ?? "false"),
    timeoutMs: (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS) * 1000,
  };
}

function tooOld(revision: number, deps: Deps): StatusError {
  return expired(
    `too old resource version: ${String(revision)} (${String(deps.store.revision())})`,
  );
}

/** Whether what came after a revision cannot be told any more. Nobody has seen the one of an empty store. */
function isTooOld(deps: Deps, { scope }: Selection, revision: number): boolean {
  return (
    revision === EMPTY_REVISION ||
    (revision > 0 && deps.store.changesAfter(scope, revision, 1) === undefined)
  );
}

/** The changes after a revision. A client may name one that is still to come. */
function after(changes: readonly Change[], revision: number): readonly Change[] {
  const [first] = changes;
  return first !== undefined && first.revision > revision
    ? changes
    : changes.filter((change) => change.revision > revision);
}

/** Tells one client, which may be slower than the store. */
class Teller {
  readonly #deps: Deps;
  readonly #selection: Selection;
  readonly #events: EventWriter;
  readonly #stream: WatchStream;
  readonly #pace: Pace;
  /** Everything up to this revision is told; 0 while the objects are told that were there. */
  #told = 0;
  /** Whether everything is told as it happens. */
  #isLive = false;
  /** Whether something was told since the last bookmark. */
  #hasNews = false;

  constructor(
    deps: Deps,
    watch: {
      readonly selection: Selection;
      readonly events: EventWriter;
      readonly stream: WatchStream;
      readonly pace: Pace;
    },
  ) {
    this.#deps = deps;
    this.#selection = watch.selection;
    this.#events = watch.events;
    this.#stream = watch.stream;
    this.#pace = watch.pace;
  }

  /** Tells until the stream ends. `after`: 0 begins with every object as ADDED. */
  async run(after: number): Promise<void> {
    this.#told = after === 0 ? await this.#tellObjects() : after;
    while (!this.#stream.signal.aborted && (await this.#catchUp())) {
      await this.#follow();
    }
  }

  /** Everything up to where the client is now, if that can be said; where it matters, only after news. */
  bookmark(): void {
    if (!this.#hasNews && !this.#deps.watchManners.bookmarksWhenQuiet) {
      return;
    }
    this.#hasNews = false;
    const revision = this.#isLive ? this.#deps.store.revision() : this.#told;
    if (revision > 0) {
      this.#stream.write(this.#events.bookmark(revision));
    }
  }

  /** Tells the objects that are there, and gives the revision at which they are. */
  async #tellObjects(): Promise<number> {
    const { store } = this.#deps;
    const revision = store.revision();
    const objects = store.list(this.#selection.scope);
    const selected = await select(objects, this.#selection, { pace: this.#pace });
    let next = 0;
    while (next < selected.length && !this.#stream.signal.aborted) {
      await this.#inTurn(() => {
        next = this.#writeObjects(selected, next);
      });
    }
    return revision;
  }

  /** Writes a chunk of objects, the first of which is at `from`; gives the index of the next one. */
  #writeObjects(objects: readonly StoredObject[], from: number): number {
    let chunk = "";
    let next = from;
    for (const stored of objects.slice(from)) {
      chunk += this.#events.added(stored);
      next += 1;
      if (chunk.length > CHUNK_LENGTH) {
        break;
      }
    }
    this.#stream.write(chunk);
    return next;
  }

  /** Does work that writes when the client has room for it and it is its user's turn. */
  #inTurn(work: () => void): Promise<void> {
    return this.#stream.withRoom(ROOM_BYTES, async () => {
      await this.#pace.next();
      work();
    });
  }

  #tell(changes: readonly Change[]): void {
    this.#hasNews ||= changes.length > 0;
    this.#stream.write(this.#events.changed(changes) ?? "");
  }

  /** Reads the log until nothing is missing; false where it is compacted already. */
  async #catchUp(): Promise<boolean> {
    while (this.#told < this.#deps.store.revision() && !this.#stream.signal.aborted) {
      await this.#inTurn(() => {
        this.#writeChanges();
      });
    }
    return !this.#stream.signal.aborted;
  }

  /** Writes the next changes of the log; ends the stream where they cannot be told any more. */
  #writeChanges(): void {
    const { store } = this.#deps;
    const now = store.revision();
    const changes = store.changesAfter(this.#selection.scope, this.#told, CHANGES_AT_ONCE);
    if (changes === undefined) {
      const error = tooOld(this.#told, this.#deps).toBody();
      this.#stream.write(`${printJson({ type: "ERROR", object: error })}\n`);
      this.#stream.end();
      return;
    }
    this.#tell(changes);
    this.#told = changes.at(-1)?.revision ?? now;
  }

  /** Tells what happens as it happens, until the stream ends or the client is too far behind. Begins in the turn in which the log was read. */
  async #follow(): Promise<void> {
    const { store } = this.#deps;
    if (this.#told < store.revision()) {
      return;
    }
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const leave = () => {
      this.#isLive = false;
      resolve(undefined);
    };
    this.#isLive = true;
    const unfollow = store.follow(this.#selection.scope, (all) => {
      if (this.#stream.isBehind) {
        // It is told from the log, once there is room for it.
        unfollow();
        leave();
        return;
      }
      const changes = after(all, this.#told);
      this.#tell(changes);
      this.#told = changes.at(-1)?.revision ?? this.#told;
    });
    this.#stream.signal.addEventListener("abort", leave);
    await promise;
    unfollow();
    this.#stream.signal.removeEventListener("abort", leave);
  }
}

/** Ends the stream when its time is over, with a bookmark; sends others until then. */
async function keepTime(
  stream: WatchStream,
  deps: Deps,
  pace: { readonly timeoutMs: number; readonly bookmark: () => void },
): Promise<void> {
  const endMs = deps.clock.monotonicMs() + pace.timeoutMs;
  // A timer may fire a part of a millisecond early: that is no time for one bookmark more.
  for (let left = pace.timeoutMs; left >= 1; left = endMs - deps.clock.monotonicMs()) {
    const untilLast = left > LAST_BOOKMARK_MS ? left - LAST_BOOKMARK_MS : left;
    await deps.clock.sleep(Math.min(untilLast, BOOKMARK_MS), stream.signal);
    pace.bookmark();
  }
  stream.end();
}

/** Ends the stream when the server stops, or when the kind is no longer served. */
function endWith(
  stream: WatchStream,
  deps: Deps,
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

/** Streams changes until the client leaves, the time is over or `stop` is aborted. Throws a StatusError 410 before anything is sent where the revision is compacted. */
export async function watchObjects(
  call: Call,
  deps: Deps,
  output: { readonly response: ServerResponse; readonly stop: AbortSignal },
): Promise<void> {
  const { revision, bookmarks, timeoutMs } = parseOptions(call);
  const selection = parseSelection(call);
  const { kind, namespace, query, user } = call;
  const { watchManners } = deps;
  const asked = { kind, namespace, query, user: user.name, revision };
  if (isTooOld(deps, selection, revision) || watchManners.hasForgotten(asked)) {
    throw tooOld(revision, deps);
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
    await Promise.all([teller.run(revision), keepTime(stream, deps, pace)]);
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
