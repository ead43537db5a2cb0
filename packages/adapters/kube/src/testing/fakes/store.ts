// SPDX-License-Identifier: Apache-2.0
// An API server in memory for tests, without watches and schemas.
import type { ResourceType } from "@patchbay/api";
import { isJsonObject, type JsonPatchOperation } from "@patchbay/api/json";
import type { KubeList, KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isEqual } from "@patchbay/base";
import type {
  DeleteOptions,
  ListOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "@patchbay/core/interfaces";
import { copyJson } from "../copy-json.ts";

type Json = Record<string, unknown>;

/** A {@link Store} in memory, which records its calls. */
export interface FakeStore extends Store {
  /** Calls in order, for example `patch virtualmachines ns/vm`. */
  readonly calls: readonly string[];
  /** Calls `act` once, before the next write, as a concurrent writer. */
  beforeNextWrite(act: () => void): void;
  /** Stores an object without any check. */
  put<T extends KubeObject>(type: ResourceType<T>, object: T): void;
}

function isJson(value: unknown): value is Json {
  return isJsonObject(value);
}

function mergePatch(target: unknown, fields: Json): Json {
  const merged: Json = isJson(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === null) Reflect.deleteProperty(merged, name);
    else merged[name] = isJson(value) ? mergePatch(merged[name], value) : copyJson(value);
  }
  return merged;
}

function stepInto(parent: unknown, token: string): unknown {
  if (Array.isArray(parent)) return parent[Number(token)];
  return isJson(parent) ? parent[token] : undefined;
}

function applyToParent(parent: unknown, token: string, operation: JsonPatchOperation): void {
  if (Array.isArray(parent)) {
    const index = token === "-" ? parent.length : Number(token);
    const removed = operation.op === "add" ? 0 : 1;
    const inserted = operation.op === "remove" ? [] : [copyJson(operation.value)];
    parent.splice(index, removed, ...inserted);
  } else if (isJson(parent)) {
    if (operation.op === "remove") Reflect.deleteProperty(parent, token);
    else parent[token] = copyJson(operation.value);
  }
}

function applyOperation(object: Json, operation: JsonPatchOperation): boolean {
  const tokens = operation.path
    .split("/")
    .slice(1)
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = tokens.pop() ?? "";
  const parent = tokens.reduce<unknown>(stepInto, object);
  const current = stepInto(parent, last);
  if (operation.op === "test") return isEqual(current, operation.value);
  if (parent === undefined || (operation.op !== "add" && current === undefined)) return false;
  applyToParent(parent, last, operation);
  return true;
}

function printKey({ namespace, name }: ObjectKey): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

class MemoryStore implements FakeStore {
  readonly calls: string[] = [];
  readonly #objects = new Map<string, KubeObject>();
  #version = 0;
  #beforeWrite: (() => void) | undefined;

  beforeNextWrite(act: () => void): void {
    this.#beforeWrite = act;
  }

  put<T extends KubeObject>(type: ResourceType<T>, object: T): void {
    this.#version += 1;
    const metadata = {
      uid: `uid-${String(this.#version)}`,
      ...object.metadata,
      resourceVersion: String(this.#version),
    };
    this.#objects.set(this.#place(type, object.metadata), { ...copyJson(object), metadata });
  }

  find<T extends KubeObject>(type: ResourceType<T>, key: ObjectKey): Promise<T | undefined> {
    this.calls.push(`get ${type.resource} ${printKey(key)}`);
    return Promise.resolve(copyJson(this.#get(type, key)));
  }

  list<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    this.calls.push(`list ${type.resource} ${options.namespace ?? ""}`);
    const scope = options.namespace === undefined ? "" : `${options.namespace}/`;
    const prefix = `${type.group}/${type.resource} ${scope}`;
    const places = [...this.#objects.keys()].filter((place) => place.startsWith(prefix)).sort();
    // Objects under a type's prefix have this type.
    const items = places.map((place) => copyJson(this.#objects.get(place)) as T);
    const metadata = { resourceVersion: String(this.#version) };
    return Promise.resolve({ apiVersion: "v1", kind: `${type.kind}List`, metadata, items });
  }

  async create<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    this.#begin("create", type, object.metadata);
    if (this.#get(type, object.metadata) !== undefined) {
      throw this.#error("KUBE_ALREADY_EXISTS", type, object.metadata);
    }
    return this.#write(type, object, options);
  }

  async update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    this.#begin("update", type, object.metadata);
    const current = this.#getOrThrow(type, object.metadata);
    const { resourceVersion } = object.metadata;
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw this.#error("KUBE_CONFLICT", type, object.metadata);
    }
    return this.#write(type, object, options);
  }

  async patch<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options: WriteOptions = {},
  ): Promise<T> {
    this.#begin("patch", type, key);
    const current = { ...copyJson(this.#getOrThrow<KubeObject>(type, key)) } as unknown as Json;
    if (patch.type === "merge") {
      return this.#write(type, mergePatch(current, patch.fields) as unknown as T, options);
    }
    if (!patch.operations.every((operation) => applyOperation(current, operation))) {
      throw this.#error("KUBE_CONFLICT", type, key);
    }
    return this.#write(type, current as unknown as T, options);
  }

  async delete<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): Promise<void> {
    this.#begin("delete", type, key);
    const current = this.#get(type, key);
    if (current === undefined) return;
    if (options.uid !== undefined && options.uid !== current.metadata.uid) {
      throw this.#error("KUBE_CONFLICT", type, key);
    }
    this.#objects.delete(this.#place(type, key));
    return Promise.resolve();
  }

  #begin(verb: string, type: ResourceType<KubeObject>, key: ObjectKey): void {
    const act = this.#beforeWrite;
    this.#beforeWrite = undefined;
    act?.();
    this.calls.push(
      `${verb} ${type.resource} ${printKey({ namespace: key.namespace ?? "", name: key.name })}`,
    );
  }

  #write<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions,
  ): Promise<T> {
    if (options.dryRun === true) return Promise.resolve(copyJson(object));
    this.put(type, object);
    return Promise.resolve(copyJson(this.#getOrThrow(type, object.metadata)));
  }

  #place(type: ResourceType<KubeObject>, { namespace = "", name }: ObjectKey): string {
    return `${type.group}/${type.resource} ${namespace}/${name}`;
  }

  #get<T extends KubeObject>(type: ResourceType<T>, key: ObjectKey): T | undefined {
    return this.#objects.get(this.#place(type, key)) as T | undefined;
  }

  #getOrThrow<T extends KubeObject>(type: ResourceType<T>, key: ObjectKey): T {
    const object = this.#get(type, key);
    if (object === undefined) throw this.#error("KUBE_NOT_FOUND", type, key);
    return object;
  }

  #error(
    code: "KUBE_ALREADY_EXISTS" | "KUBE_CONFLICT" | "KUBE_NOT_FOUND",
    type: ResourceType<KubeObject>,
    key: ObjectKey,
  ): AppError {
    return new AppError(code, { resource: type.resource, object: printKey(key) });
  }
}

export function createFakeStore(): FakeStore {
  return new MemoryStore();
}
