// SPDX-License-Identifier: Apache-2.0
// Sending of events to one watch: from the log while the client is behind, and live otherwise.
import type { TimeSlice } from "../../limits/fair-queue.ts";
import { printJson } from "../../objects/json.ts";
import type { Change, Scope, Store, StoredObject } from "../../storage/store.ts";
import type { VerbDeps } from "../deps.ts";
import type { User } from "../../auth/user.ts";
import { type Selection, selectMatching } from "../options/selection.ts";
import { type StatusError, expired } from "../../meta/status.ts";
import type { EventWriter } from "./events.ts";
import type { WatchStream } from "./stream.ts";

/** Revision of an empty store. A watch from it is too old: no list returned it, because the server creates objects before it listens. */
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

const LOG_READ_MAX_CHANGES = 200;
/** Length in characters above which the collected objects are written to the stream. */
const CHUNK_MAX_LENGTH = 64 * 1024;
/** Number of bytes of the unread-data budget that are reserved for a write before its size is known. */
const RESERVED_BYTES = 256 * 1024;

/** Drops changes up to `revision`, which were already sent or precede the start of the watch. */
function dropSent(changes: readonly Change[], revision: number): readonly Change[] {
  const [firstChange] = changes;
  return firstChange !== undefined && firstChange.revision > revision
    ? changes
    : changes.filter((change) => change.revision > revision);
}

export class WatchSender {
  readonly #deps: VerbDeps;
  readonly #selection: Selection;
  readonly #events: EventWriter;
  readonly #stream: WatchStream;
  readonly #timeSlice: TimeSlice;
  readonly #user: User;
  /** Revision up to which all events are sent; 0 while the initial objects are being sent. */
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
      readonly user: User;
    },
  ) {
    this.#deps = deps;
    this.#selection = watch.selection;
    this.#events = watch.events;
    this.#stream = watch.stream;
    this.#timeSlice = watch.timeSlice;
    this.#user = watch.user;
  }

  /** Sends events until the stream ends. If `startRevision` is 0, first sends all objects as ADDED. */
  async run(startRevision: number): Promise<void> {
    this.#sentRevision = startRevision === 0 ? await this.#sendObjects() : startRevision;
    while (!this.#stream.signal.aborted && (await this.#catchUp())) {
      await this.#sendLive();
    }
  }

  /** Sends a bookmark. If no event was sent since the last bookmark, sends one only if `sendsIdleBookmarks` is true. */
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
    const selectedObjects = await selectMatching(objects, this.#selection, {
      timeSlice: this.#timeSlice,
    });
    let nextIndex = 0;
    while (nextIndex < selectedObjects.length && !this.#stream.signal.aborted) {
      await this.#whenRoom(() => {
        nextIndex = this.#writeObjects(selectedObjects, nextIndex);
      });
    }
    return revision;
  }

  #writeObjects(objects: readonly StoredObject[], startIndex: number): number {
    let chunk = "";
    let nextIndex = startIndex;
    for (const stored of objects.slice(startIndex)) {
      chunk += this.#events.printAdded(stored);
      nextIndex += 1;
      if (chunk.length > CHUNK_MAX_LENGTH) {
        break;
      }
    }
    this.#stream.write(chunk);
    return nextIndex;
  }

  /** Runs `work`, which writes events, when the client has read enough data and the user may use the thread. */
  #whenRoom(work: () => void): Promise<void> {
    return this.#stream.withRoom(RESERVED_BYTES, async () => {
      if ((await this.#timeSlice.waitForNext()) && !this.#stream.signal.aborted) work();
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

  /** Sends the next changes of the log. If the changes are compacted, sends an error 410 and ends the watch. */
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

  /** Sends changes when they are committed, until the client falls behind. */
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
      if (this.#stream.isBehind || this.#deps.quotas.hasUsedThread(this.#user)) {
        // `run` continues from the log when the client has read enough data, and the user may use the thread.
        unfollow();
        stop();
        return;
      }
      const changes = dropSent(scopedChanges, this.#sentRevision);
      this.#deps.quotas.countTurn(this.#user);
      this.#send(changes);
      this.#sentRevision = changes.at(-1)?.revision ?? this.#sentRevision;
    });
    this.#stream.signal.addEventListener("abort", stop);
    await promise;
    unfollow();
    this.#stream.signal.removeEventListener("abort", stop);
  }
}
