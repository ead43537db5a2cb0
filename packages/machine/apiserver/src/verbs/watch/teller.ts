// SPDX-License-Identifier: Apache-2.0
// Tells one client what happens: from the log while it is behind, as it happens where it is not.
import type { Pace } from "../../limits/fair-queue.ts";
import { printJson } from "../../objects/json.ts";
import type { Change, StoredObject } from "../../storage/store.ts";
import type { VerbDeps } from "../deps.ts";
import { type Selection, select } from "../options/selection.ts";
import type { EventWriter } from "./events.ts";
import type { WatchStream } from "./stream.ts";
import { tooOld } from "./too-old.ts";

/** Changes that are read from the log at once for a watch that is behind. */
const CHANGES_AT_ONCE = 200;
/** Characters of objects that are printed before the client is waited for. */
const CHUNK_LENGTH = 64 * 1024;
/** Bytes that a chunk, or what is read from the log at once, is taken to have. */
const ROOM_BYTES = 256 * 1024;

/** The changes after a revision. A client may name one that is still to come. */
function after(changes: readonly Change[], revision: number): readonly Change[] {
  const [first] = changes;
  return first !== undefined && first.revision > revision
    ? changes
    : changes.filter((change) => change.revision > revision);
}

/** Tells one client, which may be slower than the store. */
export class Teller {
  readonly #deps: VerbDeps;
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
    deps: VerbDeps,
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
      await this.#whenRoom(() => {
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
  #whenRoom(work: () => void): Promise<void> {
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
      await this.#whenRoom(() => {
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
      const error = tooOld(this.#told, store).toBody();
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
