// SPDX-License-Identifier: Apache-2.0
// Caches the ConfigMaps and Secrets of this node's pods. Watches each object by name while a pod uses it.
import { CONFIG_MAPS, SECRETS, type ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, type Clock } from "@patchbay/base";
import type { StartableCache } from "@patchbay/kube";

import { listConfigMapEntries, listSecretEntries, type Entries } from "../content/volume-files.ts";
import { printReference, type ObjectReference } from "../content/references.ts";

/** Creates a cache, which sends no request before it is started. */
export type OpenCache = (
  type: ResourceType<KubeObject>,
  selection: { readonly namespace: string; readonly fieldSelector: string },
) => StartableCache<KubeObject>;

export interface PodObjectsDeps {
  readonly openCache: OpenCache;
  readonly clock: Clock;
}

export interface PodObjects {
  setReferences(uid: string, namespace: string, references: readonly ObjectReference[]): void;
  /** Reads an object that a pod uses. Waits until the object's watch is synchronized. @throws AppError with OS_TIMED_OUT */
  read(namespace: string, reference: ObjectReference): Promise<Entries>;
  /** Calls `listener` with the pod's uid when an object that the pod uses changes. Returns a function that unsubscribes. */
  onChange(listener: (uid: string) => void): () => void;
}

const READ_TIMEOUT_MS = 10_000;

interface WatchedObject {
  readonly cache: StartableCache<KubeObject>;
  readonly stop: AbortController;
  readonly podUids: Set<string>;
}

const TYPES: Readonly<Record<ObjectReference["kind"], ResourceType<KubeObject>>> = {
  configMap: CONFIG_MAPS,
  secret: SECRETS,
};

function buildKey(namespace: string, reference: ObjectReference): string {
  return `${namespace}/${printReference(reference)}`;
}

class WatchedObjects implements PodObjects {
  readonly #deps: PodObjectsDeps;
  readonly #signal: AbortSignal;
  readonly #watched = new Map<string, WatchedObject>();
  readonly #listeners = new Set<(uid: string) => void>();

  constructor(deps: PodObjectsDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  setReferences(uid: string, namespace: string, references: readonly ObjectReference[]): void {
    const requestedObjects = new Map(
      references.map((objectReference) => [buildKey(namespace, objectReference), objectReference]),
    );
    for (const [key, { podUids, stop }] of this.#watched) {
      if (!requestedObjects.has(key)) podUids.delete(uid);
      if (podUids.size > 0) continue;
      stop.abort();
      this.#watched.delete(key);
    }
    for (const [key, reference] of requestedObjects) {
      const watched = this.#watched.get(key) ?? this.#watch(key, namespace, reference);
      watched.podUids.add(uid);
    }
  }

  async read(namespace: string, reference: ObjectReference): Promise<Entries> {
    const watched = this.#watched.get(buildKey(namespace, reference));
    if (watched === undefined) return undefined;
    await this.#waitUntilSynced(watched.cache, reference);
    const object = watched.cache.find({ namespace, name: reference.name });
    // The kind of `object` needs no check, because each cache contains objects of one kind.
    return reference.kind === "secret" ? listSecretEntries(object) : listConfigMapEntries(object);
  }

  onChange(listener: (uid: string) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #watch(key: string, namespace: string, { kind, name }: ObjectReference): WatchedObject {
    const stop = new AbortController();
    const selection = { namespace, fieldSelector: `metadata.name=${name}` };
    const cache = this.#deps.openCache(TYPES[kind], selection);
    const watched = { cache, stop, podUids: new Set<string>() };
    this.#watched.set(key, watched);
    cache.onChange(() => {
      for (const uid of watched.podUids) for (const notify of this.#listeners) notify(uid);
    });
    cache.start(AbortSignal.any([stop.signal, this.#signal]));
    return watched;
  }

  async #waitUntilSynced(
    cache: StartableCache<KubeObject>,
    reference: ObjectReference,
  ): Promise<void> {
    const finished = new AbortController();
    const timeout = this.#deps.clock.sleep(READ_TIMEOUT_MS, finished.signal).then(() => {
      const program = `the watch of ${printReference(reference)}`;
      throw new AppError("OS_TIMED_OUT", { program, timeoutMs: READ_TIMEOUT_MS });
    });
    try {
      await Promise.race([cache.synced(), timeout]);
    } finally {
      finished.abort();
      timeout.catch(() => undefined);
    }
  }
}

export function createPodObjects(deps: PodObjectsDeps, signal: AbortSignal): PodObjects {
  return new WatchedObjects(deps, signal);
}
