// SPDX-License-Identifier: Apache-2.0
// The requests of each process as they reach an API server, one line of JSON each.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";
import type {
  DeleteOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "@patchbay/core/interfaces";
import type { ReflectOptions } from "../../packages/adapters/kube/src/watch/reflector.ts";
import {
  collectionPath,
  objectPath,
} from "../../packages/adapters/kube/src/objects/object-metadata.ts";
import type { Traffic } from "../faults/memory/cluster.ts";

export interface Request {
  /** For example `virt-handler`. */
  readonly process: string;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly contentType?: string;
  readonly body?: unknown;
  /** Whether the server accepted the request: a patch whose test fails is repeated. */
  readonly accepted: boolean;
}

type Note = (request: Omit<Request, "process" | "accepted">, accepted: boolean) => void;

function watchPath(type: ResourceType<KubeObject>, options: ReflectOptions<KubeObject>): string {
  const { namespace, labelSelector, fieldSelector } = options;
  const query = new URLSearchParams({
    ...(labelSelector !== undefined && { labelSelector }),
    ...(fieldSelector !== undefined && { fieldSelector }),
  }).toString();
  return `${collectionPath(type, namespace)}${query === "" ? "" : `?${query}`}`;
}

async function noteResult<T>(result: Promise<T>, note: (accepted: boolean) => void): Promise<T> {
  try {
    const value = await result;
    note(true);
    return value;
  } catch (error) {
    note(false);
    throw error;
  }
}

function writesOf(store: Store, note: Note): Pick<Store, "create" | "update" | "patch" | "delete"> {
  return {
    create: <T extends KubeObject>(type: ResourceType<T>, body: T, options?: WriteOptions) =>
      noteResult(store.create(type, body, options), (accepted) => {
        const path = collectionPath(type, body.metadata.namespace);
        if (options?.dryRun !== true) note({ method: "POST", path, body }, accepted);
      }),
    update: <T extends KubeObject>(type: ResourceType<T>, body: T, options?: WriteOptions) =>
      noteResult(store.update(type, body, options), (accepted) => {
        const path = objectPath(type, body.metadata, options?.subresource);
        if (options?.dryRun !== true) note({ method: "PUT", path, body }, accepted);
      }),
    patch: <T extends KubeObject>(
      type: ResourceType<T>,
      ...[key, patch, options]: [key: ObjectKey, patch: Patch, options?: WriteOptions]
    ) =>
      noteResult(store.patch(type, key, patch, options), (accepted) => {
        const path = objectPath(type, key, options?.subresource);
        const contentType = `application/${patch.type === "json" ? "json-patch" : "merge-patch"}+json`;
        const body = patch.type === "json" ? patch.operations : patch.fields;
        if (options?.dryRun !== true) note({ method: "PATCH", path, contentType, body }, accepted);
      }),
    delete: <T extends KubeObject>(
      type: ResourceType<T>,
      key: ObjectKey,
      options?: DeleteOptions,
    ) =>
      noteResult(store.delete(type, key, options), (accepted) => {
        const { gracePeriodSeconds, propagationPolicy, uid } = options ?? {};
        const body = {
          ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
          ...(propagationPolicy !== undefined && { propagationPolicy }),
          ...(uid !== undefined && { preconditions: { uid } }),
        };
        note({ method: "DELETE", path: objectPath(type, key), body }, accepted);
      }),
  };
}

function isEvent(path: string): boolean {
  return path.endsWith("/events");
}

/** Notes each write, and each distinct list, watch and read, except those of events. */
export function recordTraffic(requests: Request[]): Traffic {
  const known = new Set<string>();
  return (process: string, client: KubeClient): KubeClient => {
    const note: Note = (request, accepted) => {
      const line = { process, ...request, accepted };
      const text = JSON.stringify(line);
      if (isEvent(request.path) || (request.method === "GET" && known.has(text))) return;
      known.add(text);
      requests.push(line);
    };
    const { store } = client;
    return {
      ...client,
      store: {
        ...writesOf(store, note),
        find: (type, key, options) => {
          note({ method: "GET", path: objectPath(type, key) }, true);
          return store.find(type, key, options);
        },
        list: (type, options) => {
          note({ method: "GET", path: watchPath(type, options ?? {}) }, true);
          return store.list(type, options);
        },
      },
      reflect: (type, options) => {
        const { namespace, labelSelector, fieldSelector } = options ?? {};
        const selection = {
          ...(namespace !== undefined && { namespace }),
          ...(labelSelector !== undefined && { labelSelector }),
          ...(fieldSelector !== undefined && { fieldSelector }),
        };
        note({ method: "GET", path: watchPath(type, selection) }, true);
        return client.reflect(type, options);
      },
    };
  };
}
