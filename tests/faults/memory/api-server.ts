// SPDX-License-Identifier: Apache-2.0
// An in-memory API server with the semantics that the loops need: watches, generations, finalizers, and garbage
// collection.
import { PODS, VIRTUAL_MACHINE_INSTANCES, type ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isEqual } from "@patchbay/base";
import type { KubeClient, Reflection } from "@patchbay/kube";
import type { DeleteOptions, ObjectKey, Store } from "@patchbay/core/interfaces";
import { copyJson, createFakeStore } from "@patchbay/kube/testing";
import type { ReflectOptions } from "../../../packages/adapters/kube/src/watch/reflector.ts";

type Reported = Reflection<KubeObject>;
type Selector = (object: KubeObject) => boolean;

interface Watch {
  readonly resource: string;
  readonly selects: Selector;
  readonly tell: (told: Reported) => void;
}

/** Kinds with owners. */
const OWNED: readonly ResourceType<KubeObject>[] = [VIRTUAL_MACHINE_INSTANCES, PODS];

function memberOf(object: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>(
      (value, key) =>
        typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined,
      object,
    );
}

/** The loops' selectors: one label or one field with one value. */
function selectorOf({ labelSelector, fieldSelector }: ReflectOptions<KubeObject>): Selector {
  const [label, labelValue] = labelSelector?.split("=") ?? [];
  const [field, fieldValue] = fieldSelector?.split("=") ?? [];
  return (object) =>
    (label === undefined || object.metadata.labels?.[label] === labelValue) &&
    (field === undefined || memberOf(object, field) === fieldValue);
}

function trimmed<T extends KubeObject>(told: Reflection<T>, trim: (object: T) => T): Reflection<T> {
  if (told.kind === "listed") return { ...told, objects: told.objects.map(trim) };
  return { ...told, object: trim(told.object) };
}

/** Whether a finalizer or grace period still blocks the deletion. */
function isHeld(object: KubeObject, graceSeconds: number | undefined): boolean {
  const isBound = memberOf(object, "spec.nodeName") !== undefined;
  const isPod = object.kind === PODS.kind;
  return (object.metadata.finalizers ?? []).length > 0 || (isPod && isBound && graceSeconds !== 0);
}

/** The server; calls are processed in order. */
export class MemoryApiServer {
  readonly #objects = createFakeStore();
  readonly #watches = new Set<Watch>();
  /** Number of created objects by resource. */
  readonly #created = new Map<string, number>();
  #turn: Promise<unknown> = Promise.resolve();

  /** Calls of clients that do not crash. */
  readonly store: Store = {
    find: (type, key) => this.#objects.find(type, key),
    list: (type, options) => this.#objects.list(type, options),
    create: (type, object, options) =>
      this.#next(async () => {
        const uid = options?.dryRun === true ? {} : { uid: this.#newUid(type) };
        const metadata = { ...uid, ...object.metadata, generation: 1 };
        const made = await this.#objects.create(type, { ...object, metadata }, options);
        if (options?.dryRun !== true) this.#tell(type, { kind: "applied", object: made });
        return made;
      }),
    update: (type, object, options) =>
      this.#change(type, object.metadata, () => this.#objects.update(type, object, options)),
    patch: (type, key, patch, options) => {
      const write = (): ReturnType<typeof this.store.patch> =>
        this.#objects.patch(type, key, patch, options);
      // The patched object has the object's type.
      const change = write as () => Promise<never>;
      return options?.dryRun === true ? this.#next(change) : this.#change(type, key, change);
    },
    delete: (type, key, options) => this.#next(() => this.#delete(type, key, options)),
  };

  /** A process's view; `store` is its store. */
  clientWith(store: Store): KubeClient {
    return {
      server: "memory",
      store,
      reflect: <T extends KubeObject>(type: ResourceType<T>, wanted: ReflectOptions<T> = {}) => {
        const { trim = (object: T): T => object, ...selection } = wanted;
        const subscribe = (tell: (told: Reflection<T>) => void): { unsubscribe: () => void } =>
          // Values are stored by type.
          this.#subscribe(type, selectorOf(selection), (told) => {
            tell(trimmed(told as Reflection<T>, trim));
          });
        // A cache only subscribes.
        return { subscribe } as never;
      },
      requestRaw: () => Promise.reject(new AppError("KUBE_NOT_FOUND", {})),
      exchange: () => Promise.reject(new AppError("KUBE_NOT_FOUND", {})),
      openStream: () => Promise.reject(new AppError("KUBE_NOT_FOUND", {})),
      close: () => Promise.resolve(),
    };
  }

  /** Stores an object as it is, without a watch event. */
  put<T extends KubeObject>(type: ResourceType<T>, object: T): void {
    this.#objects.put(type, object);
  }

  /** Depends only on the number of earlier objects of the kind, so that two runs have the same uids. */
  #newUid({ resource }: ResourceType<KubeObject>): string {
    const count = (this.#created.get(resource) ?? 0) + 1;
    this.#created.set(resource, count);
    return `uid-${resource}-${String(count)}`;
  }

  #next<T>(call: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(call);
    this.#turn = done.catch(() => undefined); // returned to the caller
    return done;
  }

  #subscribe(
    type: ResourceType<KubeObject>,
    selects: Selector,
    tell: (told: Reported) => void,
  ): { unsubscribe: () => void } {
    const watch: Watch = { resource: type.resource, selects, tell };
    void this.#next(async () => {
      const { items } = await this.#objects.list(type);
      tell({ kind: "listed", objects: items.filter(selects) });
      this.#watches.add(watch);
    });
    return {
      unsubscribe: () => void this.#next(() => Promise.resolve(this.#watches.delete(watch))),
    };
  }

  #tell(type: ResourceType<KubeObject>, told: Exclude<Reported, { kind: "listed" }>): void {
    for (const { resource, selects, tell } of this.#watches) {
      if (resource !== type.resource) continue;
      const copy = copyJson(told.object);
      // Notifies asynchronously, like a connection.
      queueMicrotask(() => {
        tell(selects(copy) ? { kind: told.kind, object: copy } : { kind: "removed", object: copy });
      });
    }
  }

  #change<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    write: () => Promise<T>,
  ): Promise<T> {
    return this.#next(async () => {
      const before = await this.#objects.find(type, key);
      const written = await write();
      const isNewSpec = !isEqual(memberOf(before, "spec"), memberOf(written, "spec"));
      const generation = (written.metadata.generation ?? 1) + (isNewSpec ? 1 : 0);
      const after = { ...written, metadata: { ...written.metadata, generation } };
      this.#objects.put(type, after);
      const stored = (await this.#objects.find(type, key)) ?? after;
      const isLetGo = (stored.metadata.finalizers ?? []).length === 0 && type !== asKind(PODS);
      if (stored.metadata.deletionTimestamp !== undefined && isLetGo)
        await this.#remove(type, stored);
      else this.#tell(type, { kind: "applied", object: stored });
      return stored;
    });
  }

  async #delete<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): Promise<void> {
    const found = await this.#objects.find(type, key);
    if (found === undefined) return;
    if (options.uid !== undefined && options.uid !== found.metadata.uid) {
      throw new AppError("KUBE_CONFLICT", { resource: type.resource, object: key.name });
    }
    if (!isHeld(found, options.gracePeriodSeconds)) {
      await this.#remove(type, found);
      return;
    }
    if (found.metadata.deletionTimestamp !== undefined) return;
    const metadata = { ...found.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    this.#objects.put(type, { ...found, metadata });
    const object = (await this.#objects.find(type, key)) ?? found;
    this.#tell(type, { kind: "applied", object });
  }

  async #remove<T extends KubeObject>(type: ResourceType<T>, object: T): Promise<void> {
    await this.#objects.delete(type, object.metadata);
    this.#tell(type, { kind: "removed", object });
    for (const owned of OWNED) {
      const { items } = await this.#objects.list(owned);
      const orphans = items.filter(({ metadata: { ownerReferences = [] } }) =>
        ownerReferences.some(({ uid }) => uid === object.metadata.uid),
      );
      for (const orphan of orphans) await this.#delete(owned, orphan.metadata);
    }
  }
}

/** A unique type key, by identity. */
function asKind(type: ResourceType<KubeObject>): unknown {
  return type;
}
