// SPDX-License-Identifier: Apache-2.0
// What happens to the objects of one kind? List, then watch from there, for ever; a break is resumed where it
// was, and answered with a new list only when the server no longer knows the place.
import { apiVersionOf, type KubeObject, type ResourceType } from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/ports";
import { Observable } from "rxjs";
import { backoffMs, type BackoffRange, type Random } from "./backoff.ts";
import type { HttpStore } from "./object-store.ts";
import { collectionPath } from "./resource-path.ts";
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

/** What a reflector works with. */
export interface ReflectorDeps {
  readonly store: HttpStore;
  readonly watches: WatchConnection;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: Random;
}

/** Objects of one page of a list. */
const PAGE_SIZE = 500;
/** Wait after a failure. Source: client-go tools/cache/reflector.go (0.8 s to 30 s). */
const BACKOFF: BackoffRange = { firstMs: 800, maxMs: 30_000, jitter: 1 };
/** A watch that ends sooner than this without having told anything counts as a failure; milliseconds. */
const SHORT_WATCH_MS = 1000;
/** Failures in a row from which a line is logged as a warning. */
const WARN_FROM_FAILURES = 3;

interface Listed<T> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
}

/** One subscription. */
class Reflecting<T extends KubeObject> {
  readonly #type: ResourceType<T>;
  readonly #selection: Selection;
  readonly #deps: ReflectorDeps;
  readonly #tell: (reflection: Reflection<T>) => void;
  #failures = 0;
  /** Where the next watch begins; undefined: list first. */
  #resourceVersion: string | undefined;
  /** The server lost its place within the last list; the next list is unpaged. */
  #isUnpaged = false;

  constructor(
    source: { readonly type: ResourceType<T>; readonly selection: Selection },
    deps: ReflectorDeps,
    tell: (reflection: Reflection<T>) => void,
  ) {
    this.#type = source.type;
    this.#selection = source.selection;
    this.#deps = deps;
    this.#tell = tell;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#pass(signal).catch((error: unknown) => this.#onFailure(error, signal));
    }
  }

  /** Lists when there is no place to go on from, then watches until the connection ends. */
  async #pass(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion === undefined) {
      const { objects, resourceVersion } = await this.#list(signal);
      if (signal.aborted) return;
      this.#resourceVersion = resourceVersion;
      this.#tell({ kind: "listed", objects });
    }
    const { clock, logger } = this.#deps;
    const start = clock.monotonicMs();
    const events = await this.#watch(this.#resourceVersion, signal);
    const isShort = events === 0 && clock.monotonicMs() - start < SHORT_WATCH_MS;
    if (isShort && !signal.aborted) throw new Error("the watch ended at once");
    logger.debug("watch ended", { resource: this.#type.resource, events });
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
      objects.push(...page.items);
      next = page.metadata.continue;
      if (next === undefined || next === "") {
        this.#isUnpaged = false;
        return { objects, resourceVersion: page.metadata.resourceVersion ?? "" };
      }
    } while (!signal.aborted);
    throw signal.reason;
  }

  /** Number of events, bookmarks included. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<number> {
    let events = 0;
    const path = collectionPath(this.#type, this.#selection.namespace);
    const { labelSelector, fieldSelector } = this.#selection;
    const query = { labelSelector, fieldSelector, resourceVersion };
    for await (const event of this.#deps.watches.open({ path, query }, signal)) {
      if (signal.aborted) return events;
      events += 1;
      this.#failures = 0;
      this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
      this.#tellEvent(event.type, event.object);
    }
    return events;
  }

  #tellEvent(type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", seen: KubeObject): void {
    if (type === "BOOKMARK") return;
    // The server keeps the type of what it serves at this path.
    const object = { ...seen, apiVersion: apiVersionOf(this.#type), kind: this.#type.kind } as T;
    this.#tell({ kind: type === "DELETED" ? "removed" : "applied", object });
  }

  async #onFailure(error: unknown, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const isExpired = isAppError(error, "KUBE_EXPIRED");
    this.#isUnpaged = isExpired && this.#resourceVersion === undefined;
    if (isExpired || isAppError(error, "API_MALFORMED")) this.#resourceVersion = undefined;
    this.#failures += 1;
    const { clock, logger, random } = this.#deps;
    const waitMs =
      isExpired && this.#failures === 1 ? 0 : backoffMs(this.#failures, BACKOFF, random);
    const fields = {
      resource: this.#type.resource,
      attempt: this.#failures,
      waitMs,
      reason: messageOf(error),
    };
    if (this.#failures < WARN_FROM_FAILURES) logger.debug("watch broken", fields);
    else logger.warn("watch broken", fields);
    await clock.sleep(waitMs, signal).catch(() => undefined); // aborted: the loop sees it
  }
}

/**
 * The objects of a kind as a stream: first `listed`, then each change. It never ends and never errs by itself;
 * each subscription has its own list and watch, which end with it.
 */
export function createReflector<T extends KubeObject>(
  type: ResourceType<T>,
  selection: Selection,
  deps: ReflectorDeps,
): Observable<Reflection<T>> {
  return new Observable((subscriber) => {
    const abort = new AbortController();
    const reflecting = new Reflecting({ type, selection }, deps, (reflection) => {
      if (!abort.signal.aborted) subscriber.next(reflection);
    });
    void reflecting.run(abort.signal);
    return () => {
      abort.abort();
    };
  });
}
