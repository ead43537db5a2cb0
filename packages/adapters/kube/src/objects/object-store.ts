// SPDX-License-Identifier: Apache-2.0
// The port Store over HTTP: one method for each verb, raw JSON in and out.
import { apiVersionOf, type KubeList, type KubeObject, type ResourceType } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import type {
  CallOptions,
  DeleteOptions,
  ListOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "@patchbay/core/ports";
import type { HttpClient, HttpRequest } from "../connection/http.ts";
import { collectionPath, keyOf, objectPath, printKey } from "./resource-path.ts";
import { LostWrites } from "./lost-writes.ts";
import { parseStatus, toStatusError, type Asked } from "../connection/status-error.ts";

/** Deadline of a call, milliseconds. Source: ports, CallOptions. */
export const CALL_TIMEOUT_MS = 10_000;

/** A request, and how its errors name it. */
interface Call {
  readonly request: Omit<HttpRequest, "timeoutMs" | "signal">;
  readonly asked: Asked;
}

function parseBody(text: string, asked: Asked): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const what = `the answer to ${asked.verb} of ${asked.resource}`;
    throw new AppError("API_MALFORMED", { what, reason: String(cause) }, { cause });
  }
}

/** Whether the object is missing, not its kind: only then the answer names it. */
function isObjectMissing(status: number, text: string): boolean {
  return status === 404 && parseStatus(text)?.details?.name !== undefined;
}

/** Items of a typed list carry neither apiVersion nor kind. Source: Kubernetes API conventions, "Lists". */
function withKinds<T extends KubeObject>(type: ResourceType<T>, list: KubeList<T>): KubeList<T> {
  const apiVersion = apiVersionOf(type);
  const items = list.items.map((item) => ({ ...item, apiVersion, kind: type.kind }));
  return { ...list, items };
}

/** One page of a list. */
export interface Page {
  readonly limit?: number;
  readonly continue?: string;
}

/** Kubernetes objects over HTTP. */
export class HttpStore implements Store {
  readonly #http: HttpClient;
  readonly #lost = new LostWrites();

  constructor(http: HttpClient) {
    this.#http = http;
  }

  async find<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options: CallOptions = {},
  ): Promise<T | undefined> {
    const asked = { verb: "get", resource: type.resource, object: printKey(key) };
    const call: Call = { request: { method: "GET", path: objectPath(type, key) }, asked };
    const answer = await this.#http.request(this.#request(call, options));
    if (isObjectMissing(answer.status, answer.text)) return undefined;
    if (answer.status >= 300) throw toStatusError(answer, asked);
    return parseBody(answer.text, asked) as T; // the server keeps the kind's schema
  }

  list<T extends KubeObject>(
    type: ResourceType<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    return this.listPage(type, options, {});
  }

  /** One page; the list's `metadata.continue` names the next. */
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
          query: {
            labelSelector: options.labelSelector,
            fieldSelector: options.fieldSelector,
            limit: page.limit?.toString(),
            continue: page.continue,
          },
        },
        asked: { verb: "list", resource: type.resource, object: options.namespace ?? "" },
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
    const to = { method: "POST", path: collectionPath(type, key.namespace) } as const;
    return this.#send(object, { ...to, verb: "create", resource: type.resource }, options);
  }

  update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const path = objectPath(type, keyOf(object), options.subresource);
    const to = { method: "PUT", path } as const;
    return this.#send(object, { ...to, verb: "update", resource: type.resource }, options);
  }

  patch<T extends KubeObject>(
    type: ResourceType<T>,
    ...[key, patch, options = {}]: [key: ObjectKey, patch: Patch, options?: WriteOptions]
  ): Promise<T> {
    const isJson = patch.type === "json";
    const isTested = isJson && patch.operations.some((operation) => operation.op === "test");
    return this.#write<T>(
      {
        request: {
          method: "PATCH",
          path: objectPath(type, key, options.subresource),
          body: isJson ? patch.operations : patch.fields,
          contentType: isJson ? "application/json-patch+json" : "application/merge-patch+json",
        },
        asked: { verb: "patch", resource: type.resource, object: printKey(key), isTested },
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
    // What is undefined is not sent.
    const body = { apiVersion: "v1", kind, gracePeriodSeconds, propagationPolicy, preconditions };
    const asked = { verb: "delete", resource: type.resource, object: printKey(key) };
    try {
      const request = { method: "DELETE", path: objectPath(type, key), body } as const;
      await this.#call({ request, asked }, options);
    } catch (error) {
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error; // gone is what was wanted
    }
  }

  #send<T extends KubeObject>(
    object: T,
    to: {
      readonly method: "POST" | "PUT";
      readonly path: string;
      readonly verb: string;
      readonly resource: string;
    },
    options: WriteOptions,
  ): Promise<T> {
    const { method, path, verb, resource } = to;
    const asked = { verb, resource, object: printKey(keyOf(object)) };
    return this.#write<T>({ request: { method, path, body: object }, asked }, options);
  }

  async #write<T>(call: Call, options: WriteOptions): Promise<T> {
    const { path } = call.request;
    try {
      const written = await this.#call<T>(call, options);
      this.#lost.succeed(path);
      return written;
    } catch (error) {
      throw this.#lost.judge(path, error);
    }
  }

  async #call<T>(call: Call, options: WriteOptions): Promise<T> {
    const answer = await this.#http.request(this.#request(call, options));
    if (answer.status >= 300) throw toStatusError(answer, call.asked);
    return parseBody(answer.text, call.asked) as T; // the server keeps the kind's schema
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
