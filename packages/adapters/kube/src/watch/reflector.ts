// SPDX-License-Identifier: Apache-2.0
// Lists and watches the objects of a kind. A broken watch resumes from its last resource version. A new list follows
// only if that version has expired on the server.
import { apiVersionOf, type ResourceType } from "@patchbay/api";
import type { KubeObject, ObjectMeta } from "@patchbay/api/kubernetes";
import { isAppError, messageOf, omitUndefined, type Clock, type Logger } from "@patchbay/base";

import { Observable } from "rxjs";
import { collectionPath } from "../objects/object-metadata.ts";
import type { HttpStore } from "../objects/object-store.ts";
import { computeBackoffMs, type BackoffRange, type Random } from "../pace/backoff.ts";
import type { WatchConnection } from "./watch-connection.ts";

/** Metadata that only server-side and client-side apply need. Source: Kubernetes metav1.ObjectMeta; kubectl apply */
const MANAGED_FIELDS = "managedFields";
const LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration";

function omitField<T extends object>(object: T, name: string): T {
  if (!(name in object)) return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name)) as T;
}

/** Removes managed fields and kubectl's last-applied configuration, which are more than half of a VMI's size. */
export function omitBookkeeping<T extends KubeObject>(object: T): T {
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
  /** Removes unused fields of each object when it is received, so that long lists need less memory. Default: removes nothing. */
  readonly trim?: (object: T) => T;
  /** Whether a missing or forbidden kind is treated like a kind without objects, and listed again within five minutes. Default: false. */
  readonly isOptional?: boolean;
  /** Whether only names, uids and versions are requested and retained. Excludes `trim`. Default: false. */
  readonly isIdentityOnly?: boolean;
}

/** Source: Kubernetes API concepts, "Metadata-only fetches" */
const METADATA_ONLY = {
  list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
  watch: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
} as const;

/** The cast is safe, because callers of `isIdentityOnly` read only these fields. */
function retainIdentity<T extends KubeObject>({ apiVersion, kind, metadata }: T): T {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    apiVersion,
    kind,
    metadata: omitUndefined({ name, namespace, uid, resourceVersion }),
  } as KubeObject as T;
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
const METADATA_PAGE_SIZE = 100;
/** Delays after failures. Source: client-go tools/cache/reflector.go, with a maximum of 10 s instead of 30 s */
const DEFAULT_BACKOFF: BackoffRange = { firstMs: 800, maxMs: 10_000, jitter: 1 };
const MISSING_KIND_BACKOFF: BackoffRange = { ...DEFAULT_BACKOFF, maxMs: 300_000 };
/** Delays while the server refuses the first list of an optional kind. The first delay is short, because the startup waits for the list. */
const FIRST_LIST_BACKOFF: BackoffRange = { ...DEFAULT_BACKOFF, firstMs: 50 };
/** A watch that ends without an event within this time, in milliseconds, counts as useless. Several in a row cause a backoff. */
const SHORT_WATCH_MS = 1000;
/** Number of consecutive failures at which the first warning is logged. Each further warning requires twice as many failures. */
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
  readonly #isIdentityOnly: boolean;
  readonly #deps: ReflectorDeps;
  readonly #emit: (reflection: Reflection<T>) => void;
  #failures = 0;
  /** Number of consecutive watches that ended soon without an event. One such watch is normal. Several indicate a fault. */
  #uselessWatches = 0;
  /** Resource version from which the next watch continues. If undefined, a list precedes the watch. */
  #resourceVersion: string | undefined;
  /** Whether the next list must be unpaged, because the resource version expired while a list was read page by page. */
  #isUnpaged = false;
  /** Whether the last request failed because the kind is missing or forbidden. */
  #isRefused = false;
  /** `none`: no list was emitted yet. `missing`: an empty list was emitted, because an optional kind is missing. */
  #listState: "none" | "missing" | "listed" = "none";

  constructor(
    source: { readonly type: ResourceType<T>; readonly options: ReflectOptions<T> },
    deps: ReflectorDeps,
    emit: (reflection: Reflection<T>) => void,
  ) {
    this.#type = source.type;
    const { trim, isOptional = false, isIdentityOnly = false, ...selection } = source.options;
    this.#isOptional = isOptional;
    this.#isIdentityOnly = isIdentityOnly;
    this.#selection = selection;
    this.#trim = isIdentityOnly ? retainIdentity : (trim ?? ((object) => object));
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

  async #listAndWatch(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion === undefined) {
      const { objects, resourceVersion } = await this.#list(signal);
      if (signal.aborted) return;
      this.#failures = 0;
      this.#resourceVersion = resourceVersion;
      this.#listState = "listed";
      this.#emit({ kind: "listed", objects });
    }
    await this.#watch(this.#resourceVersion, signal);
  }

  async #list(signal: AbortSignal): Promise<ListResult<T>> {
    const objects: T[] = [];
    const pageSize = this.#isIdentityOnly ? METADATA_PAGE_SIZE : PAGE_SIZE;
    const limit = this.#isUnpaged ? {} : { limit: pageSize };
    const accept = this.#isIdentityOnly ? { accept: METADATA_ONLY.list } : {};
    let continueToken: string | undefined;
    do {
      const page = await this.#deps.store.listPage(
        this.#type,
        { ...this.#selection, signal, timeoutMs: 30_000 },
        { ...accept, ...limit, ...(continueToken !== undefined && { continue: continueToken }) },
      );
      objects.push(...page.items.map((object) => this.#trimObject(object)));
      continueToken = page.metadata.continue;
      if (continueToken === undefined || continueToken === "") {
        this.#isUnpaged = false;
        return { objects, resourceVersion: page.metadata.resourceVersion ?? "" };
      }
    } while (!signal.aborted);
    throw signal.reason;
  }

  /** Watches until the server ends the watch. Counts consecutive short watches without an event, which delay the next watch. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps;
    const startMs = clock.monotonicMs();
    let isAccepted = false;
    const onOpen = (): void => {
      isAccepted = true;
      this.#failures = 0;
    };
    try {
      await this.#emitEvents(resourceVersion, { signal, onOpen });
      logger.debug("watch ended", { resource: this.#type.resource });
    } catch (error) {
      isAccepted ||= isAppError(error, "KUBE_EXPIRED");
      throw error;
    } finally {
      const isShort = clock.monotonicMs() - startMs < SHORT_WATCH_MS;
      const isUseless = isAccepted && isShort && this.#resourceVersion === resourceVersion;
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
    const accept = this.#isIdentityOnly ? { accept: METADATA_ONLY.watch } : {};
    const target = { path, query, ...accept };
    for await (const event of this.#deps.watches.open(target, signal, onOpen)) {
      if (signal.aborted) return;
      this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
      this.#emitEvent(event.type, event.object);
    }
  }

  #emitEvent(type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", received: KubeObject): void {
    if (type === "BOOKMARK") return;
    // The cast is safe, because the API server returns only objects of this type at this path.
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
    return this.#trim(omitBookkeeping(object));
  }

  /** Counts and logs a failure. An expired resource version is a failure only of an unpaged list; otherwise, a new list follows at once. */
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

  /** Checks whether an optional kind is missing. A kind that was listed before never counts as missing. */
  #isMissing(error: unknown): boolean {
    if (!this.#isOptional || this.#listState === "listed") return false;
    return isAppError(error, "KUBE_NOT_FOUND") || isAppError(error, "KUBE_FORBIDDEN");
  }

  /** Reports an empty list, but only after three failures: a starting server may wrongly report a kind as missing. */
  #onMissing(): void {
    if (this.#listState === "missing" || this.#failures < WARN_FROM_FAILURES) return;
    this.#listState = "missing";
    this.#emit({ kind: "listed", objects: [] });
  }

  #backoffRange(): BackoffRange {
    if (this.#listState === "missing") return MISSING_KIND_BACKOFF;
    return this.#isRefused ? FIRST_LIST_BACKOFF : DEFAULT_BACKOFF;
  }

  async #waitAfterFailure(signal: AbortSignal): Promise<void> {
    const faultCount = Math.max(this.#failures, this.#uselessWatches - 1);
    if (faultCount === 0) return;
    const { clock, random } = this.#deps;
    await clock
      .sleep(computeBackoffMs(faultCount, this.#backoffRange(), random), signal)
      .catch(() => undefined); // An abort ends the loop.
  }
}

/**
 * Creates an endless stream: a list of the objects, then their changes. A new list follows when the resource version has
 * expired. Each subscription lists and watches separately. Removes managed fields and kubectl's last-applied configuration.
 */
export function createReflector<T extends KubeObject>(
  type: ResourceType<T>,
  options: ReflectOptions<T>,
  deps: ReflectorDeps,
): Observable<Reflection<T>> {
  return new Observable((subscriber) => {
    const abort = new AbortController();
    const subscription = new Subscription({ type, options }, deps, (reflection) => {
      if (!abort.signal.aborted) subscriber.next(reflection);
    });
    void subscription.run(abort.signal);
    return () => {
      abort.abort();
    };
  });
}
