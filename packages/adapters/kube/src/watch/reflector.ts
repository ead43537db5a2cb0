// SPDX-License-Identifier: Apache-2.0
// Lists and watches the objects of a kind. A broken watch resumes where it was; a new list follows only if the server
// no longer has that resource version.
import { apiVersionOf, type ResourceType } from "@patchbay/api";
import type { KubeObject, ObjectMeta } from "@patchbay/api/kubernetes";
import { isAppError, messageOf, type Clock, type Logger } from "@patchbay/base";

import { Observable } from "rxjs";
import { collectionPath } from "../objects/object-metadata.ts";
import type { HttpStore } from "../objects/object-store.ts";
import { backoffMs, type BackoffRange, type Random } from "../pace/backoff.ts";
import type { WatchConnection } from "./watch-connection.ts";

/** Fields that only apply uses. Source: Kubernetes metav1.ObjectMeta, and kubectl apply, client-side */
const MANAGED_FIELDS = "managedFields";
const LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration";

function omitField<T extends object>(object: T, name: string): T {
  if (!(name in object)) return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name)) as T;
}

/** Removes managed fields and kubectl's last-applied configuration, which are more than half of a VMI. */
export function withoutBookkeeping<T extends KubeObject>(object: T): T {
  const metadata: ObjectMeta = omitField(object.metadata, MANAGED_FIELDS);
  const { annotations } = metadata;
  const retained =
    annotations === undefined
      ? metadata
      : { ...metadata, annotations: omitField(annotations, LAST_APPLIED_ANNOTATION) };
  return { ...object, metadata: retained };
}

export type Reflection<T extends KubeObject> =
  | { readonly kind: "listed"; readonly objects: readonly T[] }
  | { readonly kind: "applied"; readonly object: T }
  | { readonly kind: "removed"; readonly object: T };

interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface ReflectOptions<T extends KubeObject> extends Selection {
  /** Removes unused fields of each object on arrival, before the list is complete. By default none. */
  readonly trim?: (object: T) => T;
  /** Whether an empty list is reported if the kind is missing or forbidden; retries every five minutes. Default: false. */
  readonly isOptional?: boolean;
}

/** `random` spreads the reconnects of clients whose connections broke together. */
interface ReflectorDeps {
  readonly store: HttpStore;
  readonly watches: WatchConnection;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: Random;
}

const PAGE_SIZE = 500;
/** Delays after failures. Source: client-go tools/cache/reflector.go, whose maximum of 30 s would delay recovery */
const BACKOFF: BackoffRange = { firstMs: 800, maxMs: 10_000, jitter: 1 };
/** Delays for optional kinds that are missing. */
const BACKOFF_OPTIONAL: BackoffRange = { ...BACKOFF, maxMs: 300_000 };
/** Delays for optional kinds before the first list, because startup waits for it. */
const BACKOFF_UNKNOWN: BackoffRange = { ...BACKOFF, firstMs: 50 };
/** Duration in milliseconds below which a watch without an event was useless. */
const SHORT_WATCH_MS = 1000;
/** Number of consecutive failures at the first warning; doubled for each further warning. */
const WARN_FROM_FAILURES = 3;

interface ListResult<T> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
}

class Subscription<T extends KubeObject> {
  readonly #type: ResourceType<T>;
  readonly #selection: Selection;
  readonly #trim: (object: T) => T;
  readonly #isOptional: boolean;
  readonly #deps: ReflectorDeps;
  readonly #emit: (reflection: Reflection<T>) => void;
  #failures = 0;
  /** Number of consecutive useless watches without an error. The first is normal; more are a fault. */
  #uselessWatches = 0;
  /** Version from which the next watch continues; undefined to list first. */
  #resourceVersion: string | undefined;
  /** Whether the next list is unpaged, because the resource version expired during the last one. */
  #isUnpaged = false;
  /** Whether the last request failed because the kind is missing or may not be read. */
  #isRefused = false;
  /** Result of the first lists of an optional kind. */
  #answer: "none" | "missing" | "listed" = "none";

  constructor(
    source: { readonly type: ResourceType<T>; readonly options: ReflectOptions<T> },
    deps: ReflectorDeps,
    emit: (reflection: Reflection<T>) => void,
  ) {
    this.#type = source.type;
    const { trim, isOptional = false, ...selection } = source.options;
    this.#isOptional = isOptional;
    this.#selection = selection;
    this.#trim = trim ?? ((object) => object);
    this.#deps = deps;
    this.#emit = emit;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#listAndWatch(signal).catch((error: unknown) => {
        if (!signal.aborted) this.#onFailure(error);
      });
      await this.#waitAfterFailure(signal);
    }
  }

  /** Lists if there is no resource version, then watches until the connection ends. */
  async #listAndWatch(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion === undefined) {
      const { objects, resourceVersion } = await this.#list(signal);
      if (signal.aborted) return;
      this.#failures = 0;
      this.#resourceVersion = resourceVersion;
      this.#answer = "listed";
      this.#emit({ kind: "listed", objects });
    }
    await this.#watch(this.#resourceVersion, signal);
  }

  async #list(signal: AbortSignal): Promise<ListResult<T>> {
    const objects: T[] = [];
    const limit = this.#isUnpaged ? {} : { limit: PAGE_SIZE };
    let next: string | undefined;
    do {
      const page = await this.#deps.store.listPage(
        this.#type,
        { ...this.#selection, signal, timeoutMs: 30_000 },
        { ...limit, ...(next !== undefined && { continue: next }) },
      );
      objects.push(...page.items.map((object) => this.#trimObject(object)));
      next = page.metadata.continue;
      if (next === undefined || next === "") {
        this.#isUnpaged = false;
        return { objects, resourceVersion: page.metadata.resourceVersion ?? "" };
      }
    } while (!signal.aborted);
    throw signal.reason;
  }

  /** Watches until the server ends the watch. Records whether it was useful: it had an event, or it was not short. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps;
    const startMs = clock.monotonicMs();
    let isServed = false;
    const onOpen = (): void => {
      isServed = true;
      this.#failures = 0;
    };
    try {
      await this.#emitEvents(resourceVersion, { signal, onOpen });
      logger.debug("watch ended", { resource: this.#type.resource });
    } catch (error) {
      isServed ||= isAppError(error, "KUBE_EXPIRED");
      throw error;
    } finally {
      const isShort = clock.monotonicMs() - startMs < SHORT_WATCH_MS;
      const isUseless = isServed && isShort && this.#resourceVersion === resourceVersion;
      this.#uselessWatches = isUseless ? this.#uselessWatches + 1 : 0;
    }
  }

  async #emitEvents(
    resourceVersion: string,
    { signal, onOpen }: { readonly signal: AbortSignal; readonly onOpen: () => void },
  ): Promise<void> {
    const path = collectionPath(this.#type, this.#selection.namespace);
    const { labelSelector, fieldSelector } = this.#selection;
    const query = { labelSelector, fieldSelector, resourceVersion };
    for await (const event of this.#deps.watches.open({ path, query }, signal, onOpen)) {
      if (signal.aborted) return;
      this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
      this.#emitEvent(event.type, event.object);
    }
  }

  #emitEvent(type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", received: KubeObject): void {
    if (type === "BOOKMARK") return;
    // The server enforces the type of objects at this path.
    const object = {
      ...received,
      apiVersion: apiVersionOf(this.#type),
      kind: this.#type.kind,
    } as T;
    this.#emit({
      kind: type === "DELETED" ? "removed" : "applied",
      object: this.#trimObject(object),
    });
  }

  #trimObject(object: T): T {
    return this.#trim(withoutBookkeeping(object));
  }

  /** Counts and logs a failure. An expired resource version does not count the first time: a new list follows at once. */
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
    const isLogged = Number.isInteger(Math.log2(this.#failures / WARN_FROM_FAILURES));
    const isWarned = isLogged && this.#failures >= WARN_FROM_FAILURES && !isMissing;
    if (isWarned) logger.warn("watch broken", fields);
    else logger.debug("watch broken", fields);
  }

  /** Checks whether an optional kind is missing. A kind that was listed before is not, even if a later request fails. */
  #isMissing(error: unknown): boolean {
    if (!this.#isOptional || this.#answer === "listed") return false;
    return isAppError(error, "KUBE_NOT_FOUND") || isAppError(error, "KUBE_FORBIDDEN");
  }

  /** Reports an empty list after the third failure, because a starting server may wrongly report a kind as missing. */
  #onMissing(): void {
    if (this.#answer === "missing" || this.#failures < WARN_FROM_FAILURES) return;
    this.#answer = "missing";
    this.#emit({ kind: "listed", objects: [] });
  }

  #backoffRange(): BackoffRange {
    if (this.#answer === "missing") return BACKOFF_OPTIONAL;
    return this.#isRefused ? BACKOFF_UNKNOWN : BACKOFF;
  }

  /** Waits after failures, and if the server repeatedly accepts a watch and ends it at once. */
  async #waitAfterFailure(signal: AbortSignal): Promise<void> {
    const faults = Math.max(this.#failures, this.#uselessWatches - 1);
    if (faults === 0) return;
    const { clock, random } = this.#deps;
    await clock
      .sleep(backoffMs(faults, this.#backoffRange(), random), signal)
      .catch(() => undefined); // aborted: the loop ends
  }
}

/**
 * Creates a stream that emits `listed`, then each change, and never ends or fails by itself. Each subscription has its
 * own list and watch. Omits managed fields and kubectl's last-applied configuration.
 */
export function createReflector<T extends KubeObject>(
  type: ResourceType<T>,
  options: ReflectOptions<T>,
  deps: ReflectorDeps,
): Observable<Reflection<T>> {
  return new Observable((subscriber) => {
    const abort = new AbortController();
    const reflecting = new Subscription({ type, options }, deps, (reflection) => {
      if (!abort.signal.aborted) subscriber.next(reflection);
    });
    void reflecting.run(abort.signal);
    return () => {
      abort.abort();
    };
  });
}
