// SPDX-License-Identifier: Apache-2.0
// ConfigMaps and Secrets that pods of this node show: each watched by its name while a pod has it, and none besides.
import { CONFIG_MAPS, SECRETS, type KubeObject, type ResourceType } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { StartableCache } from "@patchbay/kube";
import type { Clock } from "@patchbay/core/ports";
import { entriesOfConfigMap, entriesOfSecret, type Entries } from "../content/object-files.ts";
import { printReference, type ObjectReference } from "../content/references.ts";

/** A cache of the one object of that name; it asks nobody before it is started. */
export type OpenCache = (
  type: ResourceType<KubeObject>,
  selection: { readonly namespace: string; readonly fieldSelector: string },
) => StartableCache<KubeObject>;

/** An API server's objects. */
export interface PodObjectsDeps {
  readonly openCache: OpenCache;
  readonly clock: Clock;
}

/** Objects by the pods that show them. */
export interface PodObjects {
  /** From now on the pod has exactly these. */
  hold(uid: string, namespace: string, references: readonly ObjectReference[]): void;
  /**
   * What is in the object, or undefined when it is not there; of objects that a pod holds.
   * @throws AppError with OS_TIMED_OUT when the API server has not told within ten seconds
   */
  read(namespace: string, reference: ObjectReference): Promise<Entries>;
  /** Calls the listener with the pods of each object that changes, until the returned function is called. */
  onChange(listener: (uid: string) => void): () => void;
}

/** How long a pod waits for the first answer; milliseconds. It is asked again after that. */
const READ_TIMEOUT_MS = 10_000;

interface Watched {
  readonly cache: StartableCache<KubeObject>;
  readonly stop: AbortController;
  readonly holders: Set<string>;
}

const TYPES: Readonly<Record<ObjectReference["kind"], ResourceType<KubeObject>>> = {
  configMap: CONFIG_MAPS,
  secret: SECRETS,
};

function keyOf(namespace: string, reference: ObjectReference): string {
  return `${namespace}/${printReference(reference)}`;
}

class WatchedObjects implements PodObjects {
  readonly #deps: PodObjectsDeps;
  readonly #signal: AbortSignal;
  readonly #watched = new Map<string, Watched>();
  readonly #listeners = new Set<(uid: string) => void>();

  constructor(deps: PodObjectsDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  hold(uid: string, namespace: string, references: readonly ObjectReference[]): void {
    const wanted = new Map(references.map((one) => [keyOf(namespace, one), one]));
    for (const [key, { holders, stop }] of this.#watched) {
      if (!wanted.has(key)) holders.delete(uid);
      if (holders.size > 0) continue;
      stop.abort();
      this.#watched.delete(key);
    }
    for (const [key, reference] of wanted) {
      const watched = this.#watched.get(key) ?? this.#watch(key, namespace, reference);
      watched.holders.add(uid);
    }
  }

  async read(namespace: string, reference: ObjectReference): Promise<Entries> {
    const watched = this.#watched.get(keyOf(namespace, reference));
    if (watched === undefined) return undefined;
    await this.#synced(watched.cache, reference);
    const object = watched.cache.find({ namespace, name: reference.name });
    // The cache is fed by the reflector of that kind.
    return reference.kind === "secret" ? entriesOfSecret(object) : entriesOfConfigMap(object);
  }

  onChange(listener: (uid: string) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #watch(key: string, namespace: string, { kind, name }: ObjectReference): Watched {
    const stop = new AbortController();
    const selection = { namespace, fieldSelector: `metadata.name=${name}` };
    const cache = this.#deps.openCache(TYPES[kind], selection);
    const watched = { cache, stop, holders: new Set<string>() };
    this.#watched.set(key, watched);
    cache.onChange(() => {
      for (const uid of watched.holders) for (const tell of this.#listeners) tell(uid);
    });
    cache.start(AbortSignal.any([stop.signal, this.#signal]));
    return watched;
  }

  async #synced(cache: StartableCache<KubeObject>, reference: ObjectReference): Promise<void> {
    const over = new AbortController();
    const late = this.#deps.clock.sleep(READ_TIMEOUT_MS, over.signal).then(() => {
      const program = `the watch of ${printReference(reference)}`;
      throw new AppError("OS_TIMED_OUT", { program, timeoutMs: READ_TIMEOUT_MS });
    });
    try {
      await Promise.race([cache.synced(), late]);
    } finally {
      over.abort();
      late.catch(() => undefined);
    }
  }
}

/** Watches nothing yet; everything ends with the signal. */
export function createPodObjects(deps: PodObjectsDeps, signal: AbortSignal): PodObjects {
  return new WatchedObjects(deps, signal);
}
