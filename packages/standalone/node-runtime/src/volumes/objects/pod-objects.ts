// SPDX-License-Identifier: Apache-2.0
// Caches the ConfigMaps and Secrets of this node's pods while a pod uses them.
import { CONFIG_MAPS, SECRETS, type ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, type Clock, type Logger } from "@patchbay/base";
import type { ObjectKey } from "@patchbay/core/interfaces";
import { ObjectWatches, type StartableCache } from "@patchbay/kube";

import { listConfigMapEntries, listSecretEntries, type Entries } from "../content/volume-files.ts";
import { printReference, type ObjectReference } from "../content/references.ts";

export interface PodObjectsDeps {
  readonly openCache: (
    type: ResourceType<KubeObject>,
    namespace: string,
  ) => StartableCache<KubeObject>;
  readonly readObject: (
    type: ResourceType<KubeObject>,
    key: ObjectKey,
  ) => Promise<KubeObject | undefined>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface PodObjects {
  setReferences(uid: string, namespace: string, references: readonly ObjectReference[]): void;
  /** Returns an object that a pod uses. Waits until the object is known. @throws AppError with OS_TIMED_OUT */
  read(namespace: string, reference: ObjectReference): Promise<Entries>;
  /** Calls `listener` with the pod's uid when an object that the pod uses changes. Returns a function that unsubscribes. */
  onChange(listener: (uid: string) => void): () => void;
}

const READ_TIMEOUT_MS = 10_000;

const TYPES: Readonly<Record<ObjectReference["kind"], ResourceType<KubeObject>>> = {
  configMap: CONFIG_MAPS,
  secret: SECRETS,
};

const KINDS = ["configMap", "secret"] as const;

function toKey(namespace: string, { name }: ObjectReference): ObjectKey {
  return { namespace, name };
}

class WatchedObjects implements PodObjects {
  readonly #deps: PodObjectsDeps;
  readonly #watches: Readonly<Record<ObjectReference["kind"], ObjectWatches<KubeObject>>>;

  constructor(deps: PodObjectsDeps, signal: AbortSignal) {
    this.#deps = deps;
    const { clock, log: logger } = deps;
    const watch = (kind: ObjectReference["kind"]): ObjectWatches<KubeObject> =>
      new ObjectWatches(
        {
          openCache: (namespace) => deps.openCache(TYPES[kind], namespace),
          readObject: (key) => deps.readObject(TYPES[kind], key),
          clock,
          logger,
        },
        signal,
      );
    this.#watches = { configMap: watch("configMap"), secret: watch("secret") };
  }

  setReferences(uid: string, namespace: string, references: readonly ObjectReference[]): void {
    for (const kind of KINDS) {
      const ofKind = references.filter((reference) => reference.kind === kind);
      this.#watches[kind].setUsed(
        uid,
        ofKind.map((reference) => toKey(namespace, reference)),
      );
    }
  }

  async read(namespace: string, reference: ObjectReference): Promise<Entries> {
    const key = toKey(namespace, reference);
    const watches = this.#watches[reference.kind];
    const known = watches.waitUntilKnown(key);
    if (known === undefined) return undefined;
    await this.#limitWait(known, reference);
    const object = watches.find(key);
    // The kind of `object` needs no check, because each cache contains objects of one kind.
    return reference.kind === "secret" ? listSecretEntries(object) : listConfigMapEntries(object);
  }

  onChange(listener: (uid: string) => void): () => void {
    const stops = KINDS.map((kind) => this.#watches[kind].onChange(listener));
    return () => {
      for (const stop of stops) stop();
    };
  }

  async #limitWait(known: Promise<undefined>, reference: ObjectReference): Promise<void> {
    const finished = new AbortController();
    const timeout = this.#deps.clock.sleep(READ_TIMEOUT_MS, finished.signal).then(() => {
      const program = `the watch of ${printReference(reference)}`;
      throw new AppError("OS_TIMED_OUT", { program, timeoutMs: READ_TIMEOUT_MS });
    });
    try {
      await Promise.race([known, timeout]);
    } finally {
      finished.abort();
      timeout.catch(() => undefined);
    }
  }
}

export function createPodObjects(deps: PodObjectsDeps, signal: AbortSignal): PodObjects {
  return new WatchedObjects(deps, signal);
}
