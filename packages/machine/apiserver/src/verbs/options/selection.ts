// SPDX-License-Identifier: Apache-2.0
// Which objects a list, a watch or a deletecollection is about.
import { type FieldSelector, parseFieldSelector } from "../../meta/field-selector.ts";
import { type LabelMatcher, parseLabelSelector } from "../../meta/label-selector.ts";
import { type Kind, bucketOf } from "../../kinds/kind.ts";
import type { Pace } from "../../limits/fair-queue.ts";
import type { Scope, StoredObject } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { viewObject } from "../readable.ts";

/** Scope and selectors of a call. */
export interface Selection {
  readonly scope: Scope;
  /** Undefined: everything in the scope matches. */
  readonly matches: ((stored: StoredObject) => boolean) | undefined;
  /** The only name that can match. */
  readonly name: string | undefined;
}

function both(
  kind: Kind,
  labels: LabelMatcher | undefined,
  fields: FieldSelector | undefined,
): Selection["matches"] {
  if (labels === undefined && fields === undefined) {
    return undefined;
  }
  return (stored) => {
    const object = viewObject(kind, stored);
    return (labels?.(object.metadata.labels ?? {}) ?? true) && (fields?.matches(object) ?? true);
  };
}

/** The narrowest scope that holds everything that can match. */
function scopeOf({ kind, namespace }: Call, name: string | undefined): Scope {
  const bucket = bucketOf(kind);
  if (kind.namespaced && namespace === "") {
    return { bucket };
  }
  return name === undefined ? { bucket, namespace } : { bucket, namespace, name };
}

/** Reads the selection of a call. Throws a StatusError 400 for selectors that cannot be read. */
export function parseSelection(call: Call): Selection {
  const labels = parseLabelSelector(call.query.get("labelSelector") ?? "");
  const byName = call.name === "" ? "" : `metadata.name=${call.name}`;
  const given = [call.query.get("fieldSelector") ?? "", byName].filter((text) => text !== "");
  const fields = parseFieldSelector(given.join(","), call.kind);
  return {
    scope: scopeOf(call, fields?.name),
    matches: both(call.kind, labels, fields),
    name: fields?.name,
  };
}

/** The first objects that match, at most `limit`. Others are served meanwhile: `objects` must stay as they are. */
export async function select(
  objects: readonly StoredObject[],
  selection: Selection,
  how: { readonly pace: Pace; readonly limit?: number },
): Promise<readonly StoredObject[]> {
  const { matches, name } = selection;
  const { pace, limit = Infinity } = how;
  const named =
    name === undefined ? objects : objects.filter((object) => object.address.name === name);
  if (matches === undefined) {
    return named.slice(0, limit);
  }
  const found: StoredObject[] = [];
  for (const object of named) {
    if (found.length >= limit) {
      break;
    }
    if (matches(object)) {
      found.push(object);
    }
    if (pace.isOver) {
      await pace.next();
    }
  }
  return found;
}
