// SPDX-License-Identifier: Apache-2.0
import { apiVersionOf, type ResourceType } from "@patchbay/api";
import type { KubeList, KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import type {
  CallOptions,
  DeleteOptions,
  ListOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "@patchbay/core/interfaces";
import type { HttpClient, HttpRequest } from "../connection/http.ts";
import { type RequestDescription, parseStatus, toStatusError } from "../connection/status-error.ts";
import { collectionPath, keyOf, objectPath, printKey } from "./object-metadata.ts";

export const CALL_TIMEOUT_MS = 10_000;

interface Call {
  readonly request: Omit<HttpRequest, "timeoutMs" | "signal">;
  readonly description: RequestDescription;
}

function parseBody(text: string, description: RequestDescription): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const what = `the answer to ${description.verb} of ${description.resource}`;
    throw new AppError("API_MALFORMED", { what, reason: String(cause) }, { cause });
  }
}

/** Checks whether a response means that the object is missing. If its kind is unknown, the 404 response contains no object name. */
function isObjectMissing(status: number, text: string): boolean {
  return status === 404 && parseStatus(text)?.details?.name !== undefined;
}

/** Adds apiVersion and kind, which the items of a list lack. Source: Kubernetes API conventions, "Lists" */
function withKinds<T extends KubeObject>(type: ResourceType<T>, list: KubeList<T>): KubeList<T> {
  const apiVersion = apiVersionOf(type);
  const items = list.items.map((item) => ({ ...item, apiVersion, kind: type.kind }));
  return { ...list, items };
}

interface Page {
  readonly accept?: string;
  readonly limit?: number;
  readonly continue?: string;
}

export class HttpStore implements Store {
  readonly #http: HttpClient;
  readonly #conflictCounter = new ConflictCounter();

  constructor(http: HttpClient) {
    this.#http = http;
  }

  async find<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: CallOptions = {},
  ): Promise<T | undefined> {
    const description = { verb: "get", resource: type.resource, object: printKey(key) };
    const call: Call = {
      request: { method: "GET", path: objectPath(type, key) },
      description,
    };
    const answer = await this.#http.request(this.#request(call, options));
    if (isObjectMissing(answer.status, answer.text)) return undefined;
    if (answer.status >= 300) throw toStatusError(answer, description);
    return parseBody(answer.text, description) as T;
  }

  list<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    return this.listPage(type, options, {});
  }

  /** Lists one page. `metadata.continue` of the result identifies the next page. */
  async listPage<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions,
    page: Page,
  ): Promise<KubeList<T>> {
    const list = await this.#call<KubeList<T>>(
      {
        request: {
          method: "GET",
          path: collectionPath(type, options.namespace),
          ...(page.accept !== undefined && { accept: page.accept }),
          query: {
            labelSelector: options.labelSelector,
            fieldSelector: options.fieldSelector,
            limit: page.limit?.toString(),
            continue: page.continue,
          },
        },
        description: { verb: "list", resource: type.resource, object: options.namespace ?? "" },
      },
      options,
    );
    return withKinds(type, list);
  }

  create<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const key = keyOf(object);
    const target = { method: "POST", path: collectionPath(type, key.namespace) } as const;
    return this.#send(object, { ...target, verb: "create", resource: type.resource }, options);
  }

  update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const path = objectPath(type, keyOf(object), options.subresource);
    const target = { method: "PUT", path } as const;
    return this.#send(object, { ...target, verb: "update", resource: type.resource }, options);
  }

  patch<T extends KubeObject>(
    type: ResourceType<T>,
    ...[key, patch, options = {}]: [key: ObjectKey, patch: Patch, options?: WriteOptions]
  ): Promise<T> {
    const isJson = patch.type === "json";
    const hasTest = isJson && patch.operations.some((operation) => operation.op === "test");
    return this.#write<T>(
      {
        request: {
          method: "PATCH",
          path: objectPath(type, key, options.subresource),
          body: isJson ? patch.operations : patch.fields,
          contentType: isJson ? "application/json-patch+json" : "application/merge-patch+json",
        },
        description: {
          verb: "patch",
          resource: type.resource,
          object: printKey(key),
          hasTest,
        },
      },
      options,
    );
  }

  async delete<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): Promise<void> {
    const { gracePeriodSeconds, propagationPolicy, uid } = options;
    const preconditions = uid === undefined ? undefined : { uid };
    const kind = "DeleteOptions";
    const body = { apiVersion: "v1", kind, gracePeriodSeconds, propagationPolicy, preconditions };
    const description = { verb: "delete", resource: type.resource, object: printKey(key) };
    try {
      const request = { method: "DELETE", path: objectPath(type, key), body } as const;
      await this.#call({ request, description }, options);
    } catch (error) {
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error; // KUBE_NOT_FOUND means that the object is already deleted.
    }
  }

  #send<T extends KubeObject>(
    object: T,
    target: {
      readonly method: "POST" | "PUT";
      readonly path: string;
      readonly verb: string;
      readonly resource: string;
    },
    options: WriteOptions,
  ): Promise<T> {
    const { method, path, verb, resource } = target;
    const description = { verb, resource, object: printKey(keyOf(object)) };
    return this.#write<T>({ request: { method, path, body: object }, description }, options);
  }

  async #write<T>(call: Call, options: WriteOptions): Promise<T> {
    const { path } = call.request;
    try {
      const written = await this.#call<T>(call, options);
      this.#conflictCounter.reset(path);
      return written;
    } catch (error) {
      throw this.#conflictCounter.toThrow(path, error);
    }
  }

  async #call<T>(call: Call, options: WriteOptions): Promise<T> {
    const answer = await this.#http.request(this.#request(call, options));
    if (answer.status >= 300) throw toStatusError(answer, call.description);
    return parseBody(answer.text, call.description) as T;
  }

  #request(call: Call, options: WriteOptions): HttpRequest {
    const query = {
      ...call.request.query,
      dryRun: options.dryRun === true ? "All" : undefined,
      fieldValidation: options.isStrict === true ? "Strict" : undefined,
    };
    return {
      ...call.request,
      query,
      timeoutMs: options.timeoutMs ?? CALL_TIMEOUT_MS,
      ...(options.signal !== undefined && { signal: options.signal }),
    };
  }
}

/** Number of consecutive conflicts on a path at which writes begin to fail with KUBE_WRITES_LOST instead of KUBE_CONFLICT. */
const CONFLICTS_MAX = 5;
const OBJECTS_MAX = 1000;

/** Checks whether a write failed because another client changed the object first. */
export function isLostRace(error: unknown): error is AppError {
  return isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_WRITES_LOST");
}

/** Counts the consecutive conflicts on each path. From {@link CONFLICTS_MAX} on, replaces a conflict by the error KUBE_WRITES_LOST. */
export class ConflictCounter {
  readonly #conflicts = new Map<string, number>();

  toThrow(path: string, error: unknown): unknown {
    if (!isAppError(error, "KUBE_CONFLICT")) return error;
    const conflictCount = (this.#conflicts.get(path) ?? 0) + 1;
    this.#conflicts.set(path, conflictCount);
    const [oldestPath] = this.#conflicts.keys();
    if (this.#conflicts.size > OBJECTS_MAX && oldestPath !== undefined)
      this.#conflicts.delete(oldestPath);
    if (conflictCount < CONFLICTS_MAX) return error;
    return new AppError(
      "KUBE_WRITES_LOST",
      { ...error.details, count: conflictCount },
      { cause: error },
    );
  }

  reset(path: string): void {
    this.#conflicts.delete(path);
  }
}

interface PlannedWrite<T extends KubeObject> {
  readonly kind: "create" | "update" | "delete";
  readonly object: T;
}

/** Performs a write. A deletion has the precondition that the object still has the same UID. */
export async function performWrite<T extends KubeObject>(
  store: Pick<Store, "create" | "update" | "delete">,
  type: ResourceType<T>,
  { kind, object }: PlannedWrite<T>,
): Promise<void> {
  const { name, namespace = "", uid } = object.metadata;
  switch (kind) {
    case "create":
      await store.create(type, object);
      return;
    case "update":
      await store.update(type, object);
      return;
    case "delete":
      await store.delete(type, { namespace, name }, uid === undefined ? {} : { uid });
  }
}
