// SPDX-License-Identifier: Apache-2.0
// What the server knows of a kind. Everything particular to one kind is data or a function here.
import type { Cause } from "../meta/status.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type ObjectShape, kindShape } from "../shapes/shape.ts";

/** Verbs of resources, as discovery names them. */
export type Verb =
  | "create"
  | "delete"
  | "deletecollection"
  | "get"
  | "list"
  | "patch"
  | "update"
  | "watch";

/** All verbs, in discovery's order. */
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

/** A subresource, as discovery shows it. */
export interface Subresource {
  readonly name: string;
  readonly verbs: readonly Verb[];
  /** Kind of its body, where it is not the parent's. */
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
  /** 0: always; above: with `-o wide`. */
  readonly priority?: number;
  /** The cell; `nowMs` for ages. */
  readonly cell: (object: KubeObject, nowMs: number) => unknown;
}

/** What objects of a kind share, at the moment of a write. */
export interface Claims {
  /** All others of the kind, in whatever namespace; asked for only where something is to be given. */
  readonly others: () => readonly KubeObject[];
  /** Network of Services, in CIDR form. */
  readonly network: string;
  /** From 0, and below 1. */
  readonly random: () => number;
}

/** What a kind does differently. Absent members: the usual. */
export interface Strategy {
  /** Clients' main writes leave status alone; `/status` changes nothing else. */
  readonly hasStatus: boolean;
  /** Whether `/status` writes take labels and annotations too, as built-in kinds do. */
  readonly statusTakesMetadata: boolean;
  /** Whether metadata.generation counts changes of the specification. */
  readonly hasGeneration: boolean;
  /** Whether PUT needs no resourceVersion. */
  readonly allowsUnconditionalUpdate: boolean;
  /** Whether PUT makes an absent object. */
  readonly allowsCreateOnUpdate: boolean;
  /** Whether a new object may come with its status, as nodes do that register themselves. */
  readonly keepsStatusAtCreate?: boolean;
  /** Whether DELETE answers with the object that is gone. */
  readonly returnsDeleted?: boolean;
  /** What else changes when deletion begins. Changes `object`. */
  readonly beginDeletion?: (object: KubeObject) => void;
  /** Whether strategic merge patches are understood. */
  readonly allowsStrategicMerge: boolean;
  /** Fills in defaults; also at reading for custom resources. Changes `object`. */
  readonly applyDefaults?: (object: KubeObject) => void;
  /** Paths of fields that the kind does not know and will drop. */
  readonly unknownFields?: (object: KubeObject) => readonly string[];
  /** Before validation of a new object: what clients may not set. Changes `object`. */
  readonly prepareCreate?: (object: KubeObject) => void;
  /** Before validation of a change: what clients may not change. Changes `object`. */
  readonly prepareUpdate?: (object: KubeObject, current: KubeObject) => void;
  /** What a client is told that writes this object. */
  readonly warnings?: (object: KubeObject) => readonly string[];
  /** Every cause for which the object is refused. */
  readonly validate?: (object: KubeObject) => readonly Cause[];
  /** Every cause for which the change is refused, beside `validate`. */
  readonly validateUpdate?: (object: KubeObject, current: KubeObject) => readonly Cause[];
  /** Takes what only one object can have, in the mutation that writes it: every cause for which that cannot be. Changes `object`. */
  readonly claim?: (
    object: KubeObject,
    current: KubeObject | undefined,
    claims: Claims,
  ) => readonly Cause[];
  /** Causes for which a name is refused; default: DNS subdomain. */
  readonly validateName?: (name: string) => string | undefined;
  /** Fields beside metadata.name and metadata.namespace that field selectors may name. */
  readonly selectableFields: Readonly<Record<string, (object: KubeObject) => string>>;
  /** Seconds of grace at deletion; undefined: removed at once. `asked`: what the client wants. */
  readonly graceSeconds?: (object: KubeObject, asked: number | undefined) => number | undefined;
  /** Columns between Name and Age. */
  readonly columns: readonly Column[];
}

/** A kind in one version. */
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
  /** Form of a built-in kind: what is not in it is dropped. */
  readonly shape?: ObjectShape;
  /** Where the scale subresource finds its values; absent where there is none. */
  readonly scale?: ScaleValues;
  /** Set for kinds that are another view on the objects of a built-in kind. */
  readonly view?: StoredView;
  /** Set for kinds that a CustomResourceDefinition defines. */
  readonly custom?: CustomKind;
}

/** What only custom resources have. */
export interface CustomKind {
  /** apiVersion under which objects are stored. */
  readonly storageApiVersion: string;
  /** States with an older revision are pruned and defaulted again when they are read. */
  readonly schemaRevision: number;
  /** Header of deprecated versions. */
  readonly deprecationWarning?: string;
  /** No new objects: the definition is being deleted. */
  readonly terminating: boolean;
  /** Structural schema (OpenAPI v3). */
  readonly schema: Fields;
}

/** Where the scale subresource finds its values. Source: autoscaling/v1 Scale. */
export interface ScaleValues {
  /** Path of the wanted number. */
  readonly spec: readonly string[];
  /** Path of the present number. */
  readonly status: readonly string[];
  /** The selector of what is counted, as text; empty where there is none. */
  readonly selector: (object: KubeObject) => string;
}

/** How objects of another built-in kind are shown as this one. Both functions make new objects. */
export interface StoredView {
  /** Where the objects are stored. */
  readonly bucket: string;
  readonly fromStored: (object: KubeObject) => KubeObject;
  readonly toStored: (object: KubeObject) => KubeObject;
}

/** Where objects of a kind are stored; versions share it. */
export function bucketOf(kind: Pick<Kind, "group" | "resource" | "view">): string {
  return kind.view?.bucket ?? `${kind.group}/${kind.resource}`;
}

/** `apiVersion` of a kind. */
export function apiVersionOf(kind: Pick<Kind, "group" | "version">): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

/** What built-in kinds usually do. */
const PLAIN: Strategy = {
  hasStatus: false,
  statusTakesMetadata: true,
  hasGeneration: false,
  allowsUnconditionalUpdate: true,
  allowsCreateOnUpdate: false,
  allowsStrategicMerge: true,
  selectableFields: {},
  columns: [],
};

/** What a built-in kind says of itself; the rest follows. */
export type KindSketch = Pick<Kind, "group" | "version" | "resource" | "kind"> &
  Partial<Omit<Kind, "strategy" | "shape">> & { readonly strategy?: Partial<Strategy> };

function shapeOf(sketch: KindSketch): ObjectShape {
  const shape = kindShape(apiVersionOf(sketch), sketch.kind);
  if (shape === undefined) {
    throw new Error(`${sketch.kind} has no shape; add it to hack/generate/shape-facts.ts`);
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

/** Completes a built-in kind: namespaced, all verbs, usual names. */
export function defineKind(sketch: KindSketch): Kind {
  const strategy: Strategy = { ...PLAIN, ...sketch.strategy };
  const status: Subresource = { name: "status", verbs: ["get", "patch", "update"] };
  return {
    listKind: `${sketch.kind}List`,
    singular: sketch.kind.toLowerCase(),
    shortNames: [],
    categories: [],
    namespaced: true,
    verbs: ALL_VERBS,
    ...sketch,
    subresources: [
      ...(sketch.scale === undefined ? [] : [SCALE]),
      ...(strategy.hasStatus ? [status] : []),
      ...(sketch.subresources ?? []),
    ],
    strategy,
    shape: shapeOf(sketch),
  };
}
