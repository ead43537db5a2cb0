// SPDX-License-Identifier: Apache-2.0
// Types that describe kinds. `Kind` and `Strategy` contain all behavior that differs between kinds.
import type { Cause } from "../meta/status.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type ObjectShape, kindShape } from "../shapes/shape.ts";

export type Verb =
  | "create"
  | "delete"
  | "deletecollection"
  | "get"
  | "list"
  | "patch"
  | "update"
  | "watch";

export const ALL_VERBS: readonly Verb[] = [
  "create",
  "delete",
  "deletecollection",
  "get",
  "list",
  "patch",
  "update",
  "watch",
];

export interface Subresource {
  readonly name: string;
  readonly verbs: readonly Verb[];
  /** Kind of the request body. Unset if the body has the kind of the parent resource. */
  readonly kind?: string;
  readonly group?: string;
  readonly version?: string;
}

/** A column of `kubectl get`. Source: Kubernetes metav1.TableColumnDefinition. */
export interface Column {
  readonly name: string;
  readonly type: "string" | "integer" | "number" | "boolean" | "date";
  readonly format?: string;
  readonly description?: string;
  /** Priority 0 is always shown. Higher priorities are shown only with `-o wide`. */
  readonly priority?: number;
  readonly cell: (object: KubeObject, nowMs: number) => unknown;
}

export interface ClaimContext {
  /** Returns all other objects of the kind. The call is expensive, so use it only to allocate a value. */
  readonly otherObjects: () => readonly KubeObject[];
  readonly network: string;
  /** Returns a random number that is at least 0 and less than 1. */
  readonly random: () => number;
}

/** Behavior that differs between kinds. Unset members select the default behavior. */
export interface Strategy {
  /** Whether writes to the main resource ignore status, and writes to `/status` ignore all other fields. */
  readonly hasStatus: boolean;
  /** Whether `/status` writes also change labels and annotations, as for built-in kinds. */
  readonly statusWritesMetadata: boolean;
  readonly hasGeneration: boolean;
  readonly allowsUnconditionalUpdate: boolean;
  readonly allowsCreateOnUpdate: boolean;
  /** Whether POST retains the status. Kubelets register their Node together with its status. */
  readonly acceptsStatusOnCreate?: boolean;
  /** Whether DELETE returns the deleted object instead of a Status. */
  readonly returnsDeleted?: boolean;
  readonly beginDeletion?: (object: KubeObject) => void;
  readonly allowsStrategicMerge: boolean;
  /** Sets defaults in `object`. Custom resources are also defaulted when they are read. */
  readonly applyDefaults?: (object: KubeObject) => void;
  readonly unknownFields?: (object: KubeObject) => readonly string[];
  /** Resets fields that clients may not set in a new object. Runs before the validation. Changes `object`. */
  readonly prepareCreate?: (object: KubeObject) => void;
  /** Restores fields that clients may not change in an update. Runs before the validation. Changes `object`. */
  readonly prepareUpdate?: (object: KubeObject, current: KubeObject) => void;
  readonly warnings?: (object: KubeObject) => readonly string[];
  readonly validate?: (object: KubeObject) => readonly Cause[];
  readonly validateUpdate?: (object: KubeObject, current: KubeObject) => readonly Cause[];
  /** Claims unique values such as IPs and ports in the write's transaction. Changes `object`; returns all conflicts. */
  readonly claim?: (
    object: KubeObject,
    current: KubeObject | undefined,
    context: ClaimContext,
  ) => readonly Cause[];
  /** Returns an error message for an invalid name. By default, a name must be a DNS subdomain. */
  readonly validateName?: (name: string) => string | undefined;
  /** Fields that field selectors may use, in addition to metadata.name and metadata.namespace. */
  readonly selectableFields: Readonly<Record<string, (object: KubeObject) => string>>;
  /** Returns the grace period of a deletion in seconds, or undefined for an immediate deletion. */
  readonly graceSeconds?: (object: KubeObject, requested: number | undefined) => number | undefined;
  readonly columns: readonly Column[];
}

export interface Kind {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly kind: string;
  readonly listKind: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly Verb[];
  readonly subresources: readonly Subresource[];
  readonly strategy: Strategy;
  /** Field types of a built-in kind. Other fields are dropped. */
  readonly shape?: ObjectShape;
  /** Locations of the scale subresource's values; unset for kinds without the subresource. */
  readonly scale?: ScaleValues;
  readonly view?: StoredView;
  readonly custom?: CustomKind;
}

export interface CustomKind {
  readonly storageApiVersion: string;
  /** Revision at which the definition's versions last changed. Objects stored earlier are pruned and defaulted again when read. */
  readonly schemaRevision: number;
  readonly deprecationWarning?: string;
  /** Whether the definition is being deleted. If it is, new objects are rejected. */
  readonly isTerminating: boolean;
  readonly schema: Fields;
}

/** Locations of the values of the scale subresource. Source: autoscaling/v1 Scale. */
export interface ScaleValues {
  readonly specReplicasPath: readonly string[];
  readonly statusReplicasPath: readonly string[];
  /** Returns the pods' label selector in string form, or an empty string if the object has no selector. */
  readonly selector: (object: KubeObject) => string;
}

/** Conversion for a kind whose objects are stored as another built-in kind. The functions return new objects. */
export interface StoredView {
  readonly bucket: string;
  readonly fromStored: (object: KubeObject) => KubeObject;
  readonly toStored: (object: KubeObject) => KubeObject;
}

/** Returns the store's bucket of a kind. All versions of a kind share one bucket. */
export function bucketOf(kind: Pick<Kind, "group" | "resource" | "view">): string {
  return kind.view?.bucket ?? `${kind.group}/${kind.resource}`;
}

export function apiVersionOf(kind: Pick<Kind, "group" | "version">): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

const DEFAULT_STRATEGY: Strategy = {
  hasStatus: false,
  statusWritesMetadata: true,
  hasGeneration: false,
  allowsUnconditionalUpdate: true,
  allowsCreateOnUpdate: false,
  allowsStrategicMerge: true,
  selectableFields: {},
  columns: [],
};

export type KindOptions = Pick<Kind, "group" | "version" | "resource" | "kind"> &
  Partial<Omit<Kind, "strategy" | "shape">> & { readonly strategy?: Partial<Strategy> };

function requireShape(options: KindOptions): ObjectShape {
  const shape = kindShape(apiVersionOf(options), options.kind);
  if (shape === undefined) {
    throw new Error(`${options.kind} has no shape; add it to hack/generate/shape-facts.ts`);
  }
  return shape;
}

const SCALE: Subresource = {
  name: "scale",
  verbs: ["get", "patch", "update"],
  kind: "Scale",
  group: "autoscaling",
  version: "v1",
};

export function defineKind(options: KindOptions): Kind {
  const strategy: Strategy = { ...DEFAULT_STRATEGY, ...options.strategy };
  const status: Subresource = { name: "status", verbs: ["get", "patch", "update"] };
  return {
    listKind: `${options.kind}List`,
    singular: options.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    namespaced: true,
    verbs: ALL_VERBS,
    ...options,
    subresources: [
      ...(options.scale === undefined ? [] : [SCALE]),
      ...(strategy.hasStatus ? [status] : []),
      ...(options.subresources ?? []),
    ],
    strategy,
    shape: requireShape(options),
  };
}
