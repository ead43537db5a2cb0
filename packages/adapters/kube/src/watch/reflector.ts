// SPDX-License-Identifier: Apache-2.0
// What happens to the objects of one kind? List, then watch from there, for ever; a break is resumed where it
// was, and answered with a new list only when the server no longer knows the place.
import { apiVersionOf, type KubeObject, type ResourceType } from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/core/ports";
import { Observable } from "rxjs/internal/Observable"; // the rest of rxjs is 200 modules
import { backoffMs, type BackoffRange, type Random } from "../pace/backoff.ts";
import type { HttpStore } from "../objects/object-store.ts";
import { collectionPath } from "../objects/resource-path.ts";
import { withoutBookkeeping } from "./bookkeeping.ts";
import type { WatchConnection } from "./watch-connection.ts";

/** What a reflector tells. */
export type Reflection<T extends KubeObject> =
  /** Everything there is now; what is not in it is gone. */
  | { readonly kind: "listed"; readonly objects: readonly T[] }
  /** Made or changed. */
  | { readonly kind: "applied"; readonly object: T }
  | { readonly kind: "removed"; readonly object: T };

/** Which objects. */
export interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Which objects, and what of them. */
export interface Wanted<T extends KubeObject> extends Selection {
  /** Drops what nobody reads, as soon as an object has come: before the whole list is there. Absent: nothing. */
  readonly trim?: (object: T) => T;
  /**
   * Such objects may not be there at all: where the kind is missing, or may not be read, there are none until the server
   * says otherwise, which it is asked every five minutes. Default: who needs them waits for them.
   */
  readonly isOptional?: boolean;
}

/** One server: lists come from `store`, events from `watches`; `random` keeps clients that broke together apart. */
export interface ReflectorDeps {
  readonly store: HttpStore;
  readonly watches: WatchConnection;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: Random;
}

/** Objects of one page of a list. */
const PAGE_SIZE = 500;
/**
 * Wait after a failure. Source: client-go tools/cache/reflector.go (0.8 s); the longest is shorter than its 30 s, since
 * who waits for a server that is back is deaf.
 */
const BACKOFF: BackoffRange = { firstMs: 800, maxMs: 10_000, jitter: 1 };
/** The same, where what is asked for may be missing for ever. */
const BACKOFF_OPTIONAL: BackoffRange = { ...BACKOFF, maxMs: 300_000 };
/** The same, while it is not known yet whether it is there: who starts waits for the answer. */
const BACKOFF_UNKNOWN: BackoffRange = { ...BACKOFF, firstMs: 50 };
/** A watch that ends sooner than this without having told anything was of no use; milliseconds. */
const SHORT_WATCH_MS = 1000;
/** Failures in a row of which a warning is logged; then after twice as many each time. */
const WARN_FROM_FAILURES = 3;

interface Listed<T> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
}

/** One subscription. */
class Reflecting<T extends KubeObject> {
  readonly #type: ResourceType<T>;
  readonly #selection: Selection;
  readonly #trim: (object: T) => T;
  readonly #isOptional: boolean;
  readonly #deps: ReflectorDeps;
  readonly #tell: (reflection: Reflection<T>) => void;
  /** Requests in a row that failed. */
  #failures = 0;
  /** Watches in a row that were of no use, though nothing failed: the first is everyday, more are somebody's fault. */
  #fruitless = 0;
  /** Where the next watch begins; undefined: list first. */
  #resourceVersion: string | undefined;
  /** The server lost its place within the last list; the next list is unpaged. */
  #isUnpaged = false;
  /** Whether the last request was told that there is no such kind, or that it may not be read. */
  #isRefused = false;
  /** What the server has said of objects that may be missing: nothing yet, that it has none to show, or which they are. */
  #answer: "none" | "missing" | "listed" = "none";

  constructor(
    source: { readonly type: ResourceType<T>; readonly wanted: Wanted<T> },
    deps: ReflectorDeps,
    tell: (reflection: Reflection<T>) => void,
  ) {
    this.#type = source.type;
    const { trim, isOptional = false, ...selection } = source.wanted;
    this.#isOptional = isOptional;
    this.#selection = selection;
    this.#trim = trim ?? ((object) => object);
    this.#deps = deps;
    this.#tell = tell;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#pass(signal).catch((error: unknown) => {
        if (!signal.aborted) this.#onFailure(error);
      });
      await this.#wait(signal);
    }
  }

  /** Lists when there is no place to go on from, then watches until the connection ends. */
  async #pass(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion === undefined) {
      const { objects, resourceVersion } = await this.#list(signal);
      if (signal.aborted) return;
      this.#failures = 0;
      this.#resourceVersion = resourceVersion;
      this.#answer = "listed";
      this.#tell({ kind: "listed", objects });
    }
    await this.#watch(this.#resourceVersion, signal);
  }

  async #list(signal: AbortSignal): Promise<Listed<T>> {
    const objects: T[] = [];
    const limit = this.#isUnpaged ? {} : { limit: PAGE_SIZE };
    let next: string | undefined;
    do {
      const page = await this.#deps.store.listPage(
        this.#type,
        { ...this.#selection, signal, timeoutMs: 30_000 },
        { ...limit, ...(next !== undefined && { continue: next }) },
      );
      objects.push(...page.items.map((object) => this.#keep(object)));
      next = page.metadata.continue;
      if (next === undefined || next === "") {
        this.#isUnpaged = false;
        return { objects, resourceVersion: page.metadata.resourceVersion ?? "" };
      }
    } while (!signal.aborted);
    throw signal.reason;
  }

  /** Watches until the server ends it, and notes whether that was of use: an event came, or it lasted. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps;
    const startMs = clock.monotonicMs();
    let isServed = false;
    const onOpen = (): void => {
      isServed = true;
      this.#failures = 0;
    };
    try {
      await this.#tellEvents(resourceVersion, { signal, onOpen });
      logger.debug("watch ended", { resource: this.#type.resource });
    } catch (error) {
      isServed ||= isAppError(error, "KUBE_EXPIRED");
      throw error;
    } finally {
      const isShort = clock.monotonicMs() - startMs < SHORT_WATCH_MS;
      const isFruitless = isServed && isShort && this.#resourceVersion === resourceVersion;
      this.#fruitless = isFruitless ? this.#fruitless + 1 : 0;
    }
  }

  async #tellEvents(
    resourceVersion: string,
    { signal, onOpen }: { readonly signal: AbortSignal; readonly onOpen: () => void },
  ): Promise<void> {
    const path = collectionPath(this.#type, this.#selection.namespace);
    const { labelSelector, fieldSelector } = this.#selection;
    const query = { labelSelector, fieldSelector, resourceVersion };
    for await (const event of this.#deps.watches.open({ path, query }, signal, onOpen)) {
      if (signal.aborted) return;
      this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
      this.#tellEvent(event.type, event.object);
    }
  }

  #tellEvent(type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", seen: KubeObject): void {
    if (type === "BOOKMARK") return;
    // The server keeps the type of what it serves at this path.
    const object = { ...seen, apiVersion: apiVersionOf(this.#type), kind: this.#type.kind } as T;
    this.#tell({ kind: type === "DELETED" ? "removed" : "applied", object: this.#keep(object) });
  }

  #keep(object: T): T {
    return this.#trim(withoutBookkeeping(object));
  }

  /** That a place is too old is no failure: the server says what it keeps, and a new list follows at once. */
  #onFailure(error: unknown): void {
    const isExpired = isAppError(error, "KUBE_EXPIRED");
    const isFailure = !isExpired || this.#isUnpaged;
    this.#isUnpaged = isExpired && this.#resourceVersion === undefined;
    if (isExpired || isAppError(error, "API_MALFORMED")) this.#resourceVersion = undefined;
    this.#failures = isFailure ? this.#failures + 1 : 0;
    const isMissing = this.#isMissing(error);
    this.#isRefused = isMissing;
    if (isMissing) this.#onMissing();
    const { logger } = this.#deps;
    const fields = {
      resource: this.#type.resource,
      attempt: this.#failures,
      reason: messageOf(error),
    };
    const isTold = Number.isInteger(Math.log2(this.#failures / WARN_FROM_FAILURES));
    const isWarned = isTold && this.#failures >= WARN_FROM_FAILURES && !isMissing;
    if (isWarned) logger.warn("watch broken", fields);
    else logger.debug("watch broken", fields);
  }

  /** What was seen once is not taken for missing because a later request is refused. */
  #isMissing(error: unknown): boolean {
    if (!this.#isOptional || this.#answer === "listed") return false;
    return isAppError(error, "KUBE_NOT_FOUND") || isAppError(error, "KUBE_FORBIDDEN");
  }

  /** A server that has just started may say so by mistake: it counts from the third time. */
  #onMissing(): void {
    if (this.#answer === "missing" || this.#failures < WARN_FROM_FAILURES) return;
    this.#answer = "missing";
    this.#tell({ kind: "listed", objects: [] });
  }

  #pauses(): BackoffRange {
    if (this.#answer === "missing") return BACKOFF_OPTIONAL;
    return this.#isRefused ? BACKOFF_UNKNOWN : BACKOFF;
  }

  /** Waits after a failure, and where the server takes every watch on and ends it at once; else goes on at once. */
  async #wait(signal: AbortSignal): Promise<void> {
    const faults = Math.max(this.#failures, this.#fruitless - 1);
    if (faults === 0) return;
    const { clock, random } = this.#deps;
    await clock.sleep(backoffMs(faults, this.#pauses(), random), signal).catch(() => undefined); // aborted: the loop sees it
  }
}

/**
 * The objects of a kind as a stream: first `listed`, then each change. It never ends and never errs by itself;
 * each subscription has its own list and watch, which end with it. Who manages fields is not told, nor what was applied.
 */
export function createReflector<T extends KubeObject>(
  type: ResourceType<T>,
  wanted: Wanted<T>,
  deps: ReflectorDeps,
): Observable<Reflection<T>> {
  return new Observable((subscriber) => {
    const abort = new AbortController();
    const reflecting = new Reflecting({ type, wanted }, deps, (reflection) => {
      if (!abort.signal.aborted) subscriber.next(reflection);
    });
    void reflecting.run(abort.signal);
    return () => {
      abort.abort();
    };
  });
}
