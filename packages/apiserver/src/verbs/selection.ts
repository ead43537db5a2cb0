// SPDX-License-Identifier: Apache-2.0
// Which objects a list, a watch or a deletecollection is about.
import { type FieldSelector, parseFieldSelector } from "../meta/field-selector.ts";
import { type LabelMatcher, parseLabelSelector } from "../meta/label-selector.ts";
import { bucketOf } from "../kinds/kind.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Scope, StoredObject } from "../storage/store.ts";
import type { Call } from "./call.ts";

/** Scope and selectors of a call. */
export interface Selection {
  readonly scope: Scope;
  /** Undefined: everything in the scope matches. */
  readonly matches: ((object: KubeObject) => boolean) | undefined;
  /** The only name that can match. */
  readonly name: string | undefined;
}

function both(
  labels: LabelMatcher | undefined,
  fields: FieldSelector | undefined,
): Selection["matches"] {
  if (labels === undefined && fields === undefined) {
    return undefined;
  }
  return (object) =>
    (labels?.(object.metadata.labels ?? {}) ?? true) && (fields?.matches(object) ?? true);
}

/** Reads the selection of a call. Throws a StatusError 400 for selectors that cannot be read. */
export function parseSelection(call: Call): Selection {
  const labels = parseLabelSelector(call.query.get("labelSelector") ?? "");
  const byName = call.name === "" ? "" : `metadata.name=${call.name}`;
  const given = [call.query.get("fieldSelector") ?? "", byName].filter((text) => text !== "");
  const fields = parseFieldSelector(given.join(","), call.kind);
  const bucket = bucketOf(call.kind);
  return {
    scope: call.namespace === "" ? { bucket } : { bucket, namespace: call.namespace },
    matches: both(labels, fields),
    name: fields?.name,
  };
}

/** The objects that match. */
export function select(
  objects: readonly StoredObject[],
  selection: Selection,
): readonly StoredObject[] {
  const { matches, name } = selection;
  const named =
    name === undefined ? objects : objects.filter((object) => object.address.name === name);
  return matches === undefined ? named : named.filter((object) => matches(object.view()));
}
