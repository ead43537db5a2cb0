// SPDX-License-Identifier: Apache-2.0
// Kinds as data: everything that is particular to one kind is a member of `Kind` or of its `Strategy`.
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
  /** Kind of the request body, when it differs from the parent's. */
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
  /** 0: always shown; greater: only with `-o wide`. */
  readonly priority?: number;
  readonly cell: (object: KubeObject, nowMs: number) => unknown;
}

export interface ClaimContext {
  /** All other objects of the kind. Expensive, so call it only when a value must be allocated. */
  readonly otherObjects: () => readonly KubeObject[];
  /** Service network in CIDR form. */
  readonly network: string;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
}

/** What a kind does differently from other kinds. Unset members have the usual behavior. */
export interface Strategy {
  /** Writes to the main resource ignore status, and writes to `/status` ignore everything else. */
  readonly hasStatus: boolean;
  /** Whether `/status` writes also change labels and annotations, as for built-in kinds. */
  readonly statusWritesMetadata: boolean;
  readonly hasGeneration: boolean;
  readonly allowsUnconditionalUpdate: boolean;
  readonly allowsCreateOnUpdate: boolean;
  /** Whether POST keeps the status: kubelets register their Node together with its status. */
  readonly acceptsStatusOnCreate?: boolean;
  /** Whether DELETE returns the deleted object instead of a Status. */
  readonly returnsDeleted?: boolean;
  readonly beginDeletion?: (object: KubeObject) => void;
  readonly allowsStrategicMerge: boolean;
  /** Fills in defaults. Custom resources are also defaulted when they are read. Changes `object`. */
  readonly applyDefaults?: (object: KubeObject) => void;
  /** Paths of fields that are not in the schema and will be dropped. */
  readonly unknownFields?: (object: KubeObject) => readonly string[];
  /** Runs before the validation of a new object and resets fields that clients may not set. Changes `object`. */
  readonly prepareCreate?: (object: KubeObject) => void;
  /** Runs before the validation of an update and restores fields that clients may not change. Changes `object`. */
  readonly prepareUpdate?: (object: KubeObject, current: KubeObject) => void;
  readonly warnings?: (object: KubeObject) => readonly string[];
  readonly validate?: (object: KubeObject) => readonly Cause[];
  /** Runs in addition to `validate`. */
  readonly validateUpdate?: (object: KubeObject, current: KubeObject) => readonly Cause[];
  /** Claims unique values such as IPs and ports in the write's transaction; returns all conflicts. Changes `object`. */
  readonly claim?: (
    object: KubeObject,
    current: KubeObject | undefined,
    context: ClaimContext,
  ) => readonly Cause[];
  /** Returns what is wrong with a name. Default: a name must be a DNS subdomain. */
  readonly validateName?: (name: string) => string | undefined;
  /** Fields that field selectors may use, in addition to metadata.name and metadata.namespace. */
  readonly selectableFields: Readonly<Record<string, (object: KubeObject) => string>>;
  /** Grace period of a deletion in seconds; undefined deletes at once. `requested` is the client's gracePeriodSeconds. */
  readonly graceSeconds?: (object: KubeObject, requested: number | undefined) => number | undefined;
  /** Columns after Name. */
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
  /** Field types of a built-in kind. Fields that are not in it are dropped. */
  readonly shape?: ObjectShape;
  /** Unset when the kind has no scale subresource. */
  readonly scale?: ScaleValues;
  readonly view?: StoredView;
  readonly custom?: CustomKind;
}

export interface CustomKind {
  /** apiVersion under which objects are stored. */
  readonly storageApiVersion: string;
  /** Objects with an older revision are pruned and defaulted again when they are read. */
  readonly schemaRevision: number;
  /** Text of the Warning header, for deprecated versions. */
  readonly deprecationWarning?: string;
  /** Set while the definition is being deleted: creating objects is rejected. */
  readonly terminating: boolean;
  /** Structural schema (OpenAPI v3). */
  readonly schema: Fields;
}

/** Where the scale subresource finds its values. Source: autoscaling/v1 Scale. */
export interface ScaleValues {
  readonly spec: readonly string[];
  readonly status: readonly string[];
  /** The pods' label selector as text; empty when there is none. */
  readonly selector: (object: KubeObject) => string;
}

/** Shows objects of another built-in kind as this kind. Both functions return new objects. */
export interface StoredView {
  readonly bucket: string;
  readonly fromStored: (object: KubeObject) => KubeObject;
  readonly toStored: (object: KubeObject) => KubeObject;
}

/** The store's bucket for a kind. All versions of a kind share one. */
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
