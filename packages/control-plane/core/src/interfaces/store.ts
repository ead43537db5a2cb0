// SPDX-License-Identifier: Apache-2.0
import type { ResourceType } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeList, KubeObject } from "@patchbay/api/kubernetes";

/** Namespace and name of an object. `namespace` is unset for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string;
  readonly name: string;
}

/** A JSON patch (RFC 6902) or a merge patch (RFC 7386). */
export type Patch =
  | { readonly type: "json"; readonly operations: readonly JsonPatchOperation[] }
  | { readonly type: "merge"; readonly fields: Readonly<Record<string, unknown>> };

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Time limit of the call, in milliseconds. Default: 10 000. */
  readonly timeoutMs?: number;
}

export interface WriteOptions extends CallOptions {
  readonly subresource?: "status";
  readonly dryRun?: boolean;
  /** Whether the server rejects unknown fields instead of dropping them with a warning. */
  readonly isStrict?: boolean;
}

export interface ListOptions extends CallOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface DeleteOptions extends CallOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Orphan" | "Background" | "Foreground";
  /** UID of the object to delete. The call fails if the object has another UID. */
  readonly uid?: string;
}

/**
 * Calls the API server. A call that fails throws {@link AppError} with a `KUBE_` code: KUBE_CONFLICT (also for a failed `test` of a
 * JSON patch), KUBE_NOT_FOUND, KUBE_ALREADY_EXISTS, KUBE_REFUSED (4xx with causes), KUBE_UNREACHABLE.
 */
export interface Store {
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
  /** Replaces the object. Fails if `resourceVersion` is set and not current. */
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
  /** Deletes the object. Succeeds if the object does not exist. */
  delete<T extends KubeObject>(
    type: ResourceType<T>,
    key: ObjectKey,
    options?: DeleteOptions,
  ): Promise<void>;
}
