// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects, by calls to the API server.
import type { JsonPatchOperation, KubeList, KubeObject, ResourceType } from "@patchbay/api";

/** Name of an object; namespace absent for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string;
  readonly name: string;
}

/** A change of one object: operations (RFC 6902), or the fields to set (RFC 7386). */
export type Patch =
  | { readonly type: "json"; readonly operations: readonly JsonPatchOperation[] }
  | { readonly type: "merge"; readonly fields: Readonly<Record<string, unknown>> };

/** What every call takes; an abort rejects with the signal's reason. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Default 10 000. */
  readonly timeoutMs?: number;
}

/** What part is written, and whether it is at all: a dry run answers as if. */
export interface WriteOptions extends CallOptions {
  readonly subresource?: "status";
  readonly dryRun?: boolean;
  /** Whether fields that the server does not know are refused; else it drops them, and says so. */
  readonly isStrict?: boolean;
}

/** Which objects; absent: those of all namespaces, whatever their labels and fields. */
export interface ListOptions extends CallOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** How an object goes, and what becomes of those that it owns; the server has defaults for both. */
export interface DeleteOptions extends CallOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Orphan" | "Background" | "Foreground";
  /** Refuses when the object of that name is another one. */
  readonly uid?: string;
}

/**
 * Calls the API server. Every call throws {@link AppError} with a `KUBE_` code: KUBE_CONFLICT also for a
 * failed `test` of a JSON patch, KUBE_NOT_FOUND, KUBE_ALREADY_EXISTS, KUBE_REFUSED (4xx with causes), KUBE_UNREACHABLE.
 */
export interface Store {
  /** The object, or undefined when it is not there. */
  find<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: CallOptions,
  ): Promise<T | undefined>;
  list<T extends KubeObject>(type: ResourceType<T>, options?: ListOptions): Promise<KubeList<T>>;
  create<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<T>;
  /** Replaces the object; its resourceVersion, when set, must be the current one. */
  update<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<T>;
  patch<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    patch: Patch,
    options?: WriteOptions,
  ): Promise<T>;
  /** Not there is success. */
  delete<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: DeleteOptions,
  ): Promise<void>;
}
