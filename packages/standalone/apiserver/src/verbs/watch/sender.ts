// SPDX-License-Identifier: Apache-2.0
// Sending of events to one watch: from the log while the client is behind, and live otherwise.
import type { TimeSlice } from "../../limits/fair-queue.ts";
import { printJson } from "../../objects/json.ts";
import type { Change, Scope, Store, StoredObject } from "../../storage/store.ts";
import type { VerbDeps } from "../deps.ts";
import { type Selection, selectMatching } from "../options/selection.ts";
import { type StatusError, expired } from "../../meta/status.ts";
import type { EventWriter } from "./events.ts";
import type { WatchStream } from "./stream.ts";

/** Revision of an empty store. No response contains it, so a client that sends it expects a 410. */
const EMPTY_REVISION = 1;

export function tooOldError(revision: number, store: Store): StatusError {
  return expired(`too old resource version: ${String(revision)} (${String(store.revision())})`);
}

export function isTooOld(store: Store, scope: Scope, revision: number): boolean {
  return (
    revision === EMPTY_REVISION ||
    (revision > 0 && store.changesAfter(scope, revision, 1) === undefined)
  );
}

/** Maximum number of changes in one read of the log. */
const LOG_READ_MAX_CHANGES = 200;
/** Maximum length of the objects in one write, in characters. */
const CHUNK_MAX_LENGTH = 64 * 1024;
/** Assumed size in bytes of one write, for the reservation. */
const RESERVED_BYTES = 256 * 1024;

/** Drops changes that were already sent. A client may start at a future revision. */
function dropSent(changes: readonly Change[], revision: number): readonly Change[] {
  const [first] = changes;
  return first !== undefined && first.revision > revision
    ? changes
    : changes.filter((change) => change.revision > revision);
}

export class WatchSender {
  readonly #deps: VerbDeps;
  readonly #selection: Selection;
  readonly #events: EventWriter;
  readonly #stream: WatchStream;
  readonly #timeSlice: TimeSlice;
  /** All events up to this revision are sent; 0 while the initial objects are being sent. */
  #sentRevision = 0;
  #isLive = false;
  #hasSentEvents = false;

  constructor(
    deps: VerbDeps,
    watch: {
      readonly selection: Selection;
      readonly events: EventWriter;
      readonly stream: WatchStream;
      readonly timeSlice: TimeSlice;
    },
  ) {
    this.#deps = deps;
    this.#selection = watch.selection;
    this.#events = watch.events;
    this.#stream = watch.stream;
    this.#timeSlice = watch.timeSlice;
  }

  /** Runs until the stream ends. A `startRevision` of 0 starts with every object as ADDED. */
  async run(startRevision: number): Promise<void> {
    this.#sentRevision = startRevision === 0 ? await this.#sendObjects() : startRevision;
    while (!this.#stream.signal.aborted && (await this.#catchUp())) {
      await this.#sendLive();
    }
  }

  /** Sends a bookmark if the initial objects are sent. Without `sendsIdleBookmarks`, sends none if no event was sent. */
  sendBookmark(): void {
    if (!this.#hasSentEvents && !this.#deps.watchBehavior.sendsIdleBookmarks) {
      return;
    }
    this.#hasSentEvents = false;
    const revision = this.#isLive ? this.#deps.store.revision() : this.#sentRevision;
    if (revision > 0) {
      this.#stream.write(this.#events.printBookmark(revision));
    }
  }

  async #sendObjects(): Promise<number> {
    const { store } = this.#deps;
    const revision = store.revision();
    const objects = store.list(this.#selection.scope);
    const selected = await selectMatching(objects, this.#selection, { timeSlice: this.#timeSlice });
    let next = 0;
    while (next < selected.length && !this.#stream.signal.aborted) {
      await this.#whenRoom(() => {
        next = this.#writeObjects(selected, next);
      });
    }
    return revision;
  }

  #writeObjects(objects: readonly StoredObject[], start: number): number {
    let chunk = "";
    let next = start;
    for (const stored of objects.slice(start)) {
      chunk += this.#events.printAdded(stored);
      next += 1;
      if (chunk.length > CHUNK_MAX_LENGTH) {
        break;
      }
    }
    this.#stream.write(chunk);
    return next;
  }

  /** Waits until the client has read enough and the user's time slice begins, then runs `work`, which writes. */
  #whenRoom(work: () => void): Promise<void> {
    return this.#stream.withRoom(RESERVED_BYTES, async () => {
      await this.#timeSlice.waitForNext();
      work();
    });
  }

  #send(changes: readonly Change[]): void {
    this.#hasSentEvents ||= changes.length > 0;
    this.#stream.write(this.#events.printChanges(changes) ?? "");
  }

  /** Sends changes from the log until the client is up to date. Returns false if the stream has ended. */
  async #catchUp(): Promise<boolean> {
    while (this.#sentRevision < this.#deps.store.revision() && !this.#stream.signal.aborted) {
      await this.#whenRoom(() => {
        this.#sendFromLog();
      });
    }
    return !this.#stream.signal.aborted;
  }

  /** Sends the next changes of the log, or a 410 if they are compacted. */
  #sendFromLog(): void {
    const { store } = this.#deps;
    const currentRevision = store.revision();
    const changes = store.changesAfter(
      this.#selection.scope,
      this.#sentRevision,
      LOG_READ_MAX_CHANGES,
    );
    if (changes === undefined) {
      const error = tooOldError(this.#sentRevision, store).toBody();
      this.#stream.write(`${printJson({ type: "ERROR", object: error })}\n`);
      this.#stream.end();
      return;
    }
    this.#send(changes);
    this.#sentRevision = changes.at(-1)?.revision ?? currentRevision;
  }

  /** Sends changes until the client falls behind. Must start in the turn of the event loop that read the log. */
  async #sendLive(): Promise<void> {
    const { store } = this.#deps;
    if (this.#sentRevision < store.revision()) {
      return;
    }
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const stop = () => {
      this.#isLive = false;
      resolve(undefined);
    };
    this.#isLive = true;
    const unfollow = store.follow(this.#selection.scope, (scopedChanges) => {
      if (this.#stream.isBehind) {
        // run() continues from the log when there is room.
        unfollow();
        stop();
        return;
      }
      const changes = dropSent(scopedChanges, this.#sentRevision);
      this.#send(changes);
      this.#sentRevision = changes.at(-1)?.revision ?? this.#sentRevision;
    });
    this.#stream.signal.addEventListener("abort", stop);
    await promise;
    unfollow();
    this.#stream.signal.removeEventListener("abort", stop);
  }
}
