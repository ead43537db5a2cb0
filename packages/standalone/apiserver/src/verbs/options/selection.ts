// SPDX-License-Identifier: Apache-2.0
// Parses the selectors of lists, watches and deletecollection. Source: Kubernetes fields.ParseSelector.
import { type LabelMatcher, parseLabelSelector } from "../../meta/label-selector.ts";
import { type Kind, apiVersionOf, bucketOf } from "../../kinds/kind.ts";
import type { TimeSlice } from "../../limits/fair-queue.ts";
import type { Scope, StoredObject } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { viewObject } from "../conversion.ts";
import { badRequest, internalError } from "../../meta/status.ts";
import type { KubeObject } from "../../objects/object.ts";

type ObjectMatcher = (object: KubeObject) => boolean;

interface FieldSelector {
  readonly matches: ObjectMatcher;
  /** Required value of metadata.name; undefined if any name matches. */
  readonly name: string | undefined;
}

const META_FIELDS: Readonly<Record<string, (object: KubeObject) => string>> = {
  "metadata.name": (object) => object.metadata.name,
  "metadata.namespace": (object) => object.metadata.namespace ?? "",
};

const TERM = /^([^=!]+)(==|!=|=)(.*)$/;

function parseTerm(text: string, kind: Kind): { field: string; isNegated: boolean; value: string } {
  const [, field = "", operator = "", value = ""] = TERM.exec(text) ?? [];
  if (field === "") {
    throw badRequest(`invalid field selector: "${text}"; can't understand it`);
  }
  if (!Object.hasOwn(META_FIELDS, field) && !Object.hasOwn(kind.strategy.selectableFields, field)) {
    const message =
      kind.custom === undefined
        ? `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`
        : `field label not supported: ${field}`;
    throw badRequest(
      `Unable to find "${apiVersionOf(kind)}, Resource=${kind.resource}" that match label selector "", field selector "${text}": ${message}`,
    );
  }
  return { field, isNegated: operator === "!=", value: value.replace(/\\(.)/g, "$1") };
}

/** Parses a field selector. Returns undefined if it is empty. Throws a StatusError 400 for fields that the kind does not support. */
export function parseFieldSelector(text: string, kind: Kind): FieldSelector | undefined {
  const terms = text
    .split(/(?<!\\),/)
    .filter((term) => term !== "")
    .map((term) => parseTerm(term, kind));
  if (terms.length === 0) {
    return undefined;
  }
  const getters = { ...kind.strategy.selectableFields, ...META_FIELDS };
  return {
    name: terms.find((term) => term.field === "metadata.name" && !term.isNegated)?.value,
    matches: (object) =>
      terms.every(
        (term) => ((getters[term.field]?.(object) ?? "") === term.value) !== term.isNegated,
      ),
  };
}

export interface Selection {
  readonly scope: Scope;
  /** Predicate for objects in the scope; undefined if all objects match. */
  readonly matches: ((stored: StoredObject) => boolean) | undefined;
  readonly name: string | undefined;
}

function combineMatchers(
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

/** Returns the narrowest scope that contains all possible matches. */
function narrowestScope({ kind, namespace }: Call, name: string | undefined): Scope {
  const bucket = bucketOf(kind);
  if (kind.namespaced && namespace === "") {
    return { bucket };
  }
  return name === undefined ? { bucket, namespace } : { bucket, namespace, name };
}

export function parseSelection(call: Call): Selection {
  const labels = parseLabelSelector(call.query.get("labelSelector") ?? "");
  const byName = call.name === "" ? "" : `metadata.name=${call.name}`;
  const fieldSelectors = [call.query.get("fieldSelector") ?? "", byName].filter(
    (text) => text !== "",
  );
  const fields = parseFieldSelector(fieldSelectors.join(","), call.kind);
  return {
    scope: narrowestScope(call, fields?.name),
    matches: combineMatchers(call.kind, labels, fields),
    name: fields?.name,
  };
}

/** Returns at most `limit` matches. Other requests run meanwhile, so callers must pass an array that nothing else changes. Throws a StatusError 500 instead of returning a part. */
export async function selectMatching(
  objects: readonly StoredObject[],
  selection: Selection,
  options: { readonly timeSlice: TimeSlice; readonly limit?: number },
): Promise<readonly StoredObject[]> {
  const { matches, name } = selection;
  const { timeSlice, limit = Infinity } = options;
  const namedObjects =
    name === undefined ? objects : objects.filter((object) => object.address.name === name);
  if (matches === undefined) {
    return namedObjects.slice(0, limit);
  }
  const matchingObjects: StoredObject[] = [];
  for (const object of namedObjects) {
    if (matchingObjects.length >= limit) {
      break;
    }
    if (matches(object)) {
      matchingObjects.push(object);
    }
    if (timeSlice.isUsedUp && !(await timeSlice.waitForNext())) {
      throw internalError("the client disconnected, or the server stops");
    }
  }
  return matchingObjects;
}
