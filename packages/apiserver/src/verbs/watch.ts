// SPDX-License-Identifier: Apache-2.0
// GET with watch: what happened after a revision, and then what happens.
import type { ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import { expired, invalid } from "../http/status.ts";
import { forbiddenValue } from "../meta/causes.ts";
import type { Change } from "../storage/store.ts";
import type { Call, Deps } from "./call.ts";
import { checkReached, parseFlag, parseRevision } from "./options.ts";
import { type Selection, parseSelection, select } from "./selection.ts";
import { type EventWriter, makeEventWriter } from "./watch-events.ts";

/** Bookmarks are sent this often. */
const BOOKMARK_MS = 60_000;
/** A watch without timeoutSeconds ends after this long: clients come again. Source: kube-apiserver min-request-timeout. */
const DEFAULT_TIMEOUT_SECONDS = 1800;
/** A client that does not read is cut off. */
const BACKLOG_MAX_BYTES = 64 * 1024 * 1024;

interface WatchOptions {
  readonly revision: number | undefined;
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
  const seconds = Number(query.get("timeoutSeconds") ?? 0);
  return {
    revision: parseRevision(query.get("resourceVersion")),
    bookmarks: parseFlag(query.get("allowWatchBookmarks") ?? "false"),
    timeoutMs: (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS) * 1000,
  };
}

/** What has to be told first. Without a revision: every object as ADDED. */
function initialLines(
  call: Call,
  deps: Deps,
  start: { selection: Selection; revision: number | undefined; events: EventWriter },
): string[] {
  const { selection, revision, events } = start;
  if (revision === undefined || revision === 0) {
    return select(deps.store.list(selection.scope), selection).map((stored) =>
      events.added(stored),
    );
  }
  const changes = deps.store.changesAfter(selection.scope, revision);
  if (changes === undefined) {
    throw expired(
      `too old resource version: ${String(revision)} (${String(deps.store.revision())})`,
    );
  }
  return changes.flatMap((change) => events.changed(change) ?? []);
}

/** One open watch. */
class Stream {
  readonly #response: ServerResponse;
  readonly #ended = new AbortController();

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on("close", () => {
      this.end();
    });
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  write(lines: readonly string[]): void {
    if (lines.length === 0 || this.signal.aborted) {
      return;
    }
    this.#response.write(lines.join(""));
    if (this.#response.writableLength > BACKLOG_MAX_BYTES) {
      this.#response.destroy();
    }
  }

  end(): void {
    this.#ended.abort();
    this.#response.end();
  }
}

function inScope(change: Change, selection: Selection): boolean {
  const { bucket, namespace } = change.current.address;
  const { scope } = selection;
  return bucket === scope.bucket && (scope.namespace ?? namespace) === namespace;
}

async function keepAlive(
  stream: Stream,
  deps: Deps,
  pace: WatchOptions & { readonly events: EventWriter },
): Promise<void> {
  const endMs = deps.clock.monotonicMs() + pace.timeoutMs;
  try {
    for (let left = pace.timeoutMs; left > 0; left = endMs - deps.clock.monotonicMs()) {
      await deps.clock.sleep(Math.min(left, BOOKMARK_MS), stream.signal);
      if (pace.bookmarks) {
        stream.write([pace.events.bookmark(deps.store.revision())]);
      }
    }
  } catch (error) {
    // The client left, or the server stops.
    if (!stream.signal.aborted) {
      deps.logger.error("watch failed", { err: messageOf(error) });
    }
  }
}

/**
 * Streams changes until the client leaves, the time is over or `stop` is aborted. Throws a StatusError 410 before anything is sent where the revision is compacted.
 * Beginning and following happen in one turn of the event loop, so no change is lost between them.
 */
export async function watchObjects(
  call: Call,
  deps: Deps,
  output: { readonly response: ServerResponse; readonly stop: AbortSignal },
): Promise<void> {
  const options = parseOptions(call);
  const selection = parseSelection(call);
  checkReached(options.revision ?? 0, deps.store.revision());
  const events = makeEventWriter(call, selection, () => deps.clock.now());
  const first = initialLines(call, deps, { selection, revision: options.revision, events });
  const { response, stop } = output;
  const stream = new Stream(response);
  response.writeHead(200, { "content-type": "application/json", "transfer-encoding": "chunked" });
  response.flushHeaders();
  stream.write(first);
  const unsubscribe = deps.store.subscribe((changes) => {
    stream.write(
      changes
        .filter((change) => inScope(change, selection))
        .flatMap((change) => events.changed(change) ?? []),
    );
  });
  const onStop = () => {
    stream.end();
  };
  stop.addEventListener("abort", onStop);
  const definitionGone = deps.store.subscribe(() => {
    if (deps.registry.find(call.kind.group, call.kind.version, call.kind.resource) === undefined) {
      stream.end();
    }
  });
  try {
    await keepAlive(stream, deps, { ...options, events });
  } finally {
    unsubscribe();
    definitionGone();
    stop.removeEventListener("abort", onStop);
    stream.end();
  }
}
