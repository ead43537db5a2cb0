// SPDX-License-Identifier: Apache-2.0
// Decodes objects of clients, and refuses those that are beyond a limit or invalid.
import {
  buildKindLimits,
  findBeyondLimit,
  type KindLimits,
  type LimitProblem,
} from "@patchbay/api/limits";
import { SERVICE_ACCOUNT_PREFIX } from "@patchbay/api/names";
import { badRequest, type Cause, invalid } from "../meta/status.ts";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { invalidValue, tooLongValue, tooManyValue } from "../meta/causes.ts";
import { decodeMeta } from "../meta/metadata.ts";
import { type Fields, asText, isFields, printJson, textAt, without } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type DecodedShape, decodeShape } from "../shapes/decode-shape.ts";
import { DecodeError, wrongType } from "../shapes/scalar.ts";
import { OBJECT_META } from "../shapes/shape.ts";
import { type Call, toResourceRef } from "./call.ts";

export interface DecodedObject {
  readonly object: KubeObject;
  readonly unknownPaths: readonly string[];
}

function checkApiVersion(kind: Kind, apiVersion: string): void {
  const expected = apiVersionOf(kind);
  if (apiVersion !== expected) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`,
    );
  }
}

function checkBuiltIn(kind: Kind, apiVersion: string, name: string): void {
  if (apiVersion !== "") {
    checkApiVersion(kind, apiVersion);
  }
  if (name !== "" && name !== kind.kind) {
    throw badRequest(
      `${name} in version "${kind.version}" cannot be handled as a ${kind.kind}: converting (${kind.version}.${name}) to (${kind.kind}): unknown conversion`,
    );
  }
}

function checkCustom(kind: Kind, fields: Fields, name: string): void {
  const apiVersion = asText(fields["apiVersion"]);
  for (const [member, value] of [
    ["Kind", name],
    ["apiVersion", apiVersion],
  ] as const) {
    if (value === "") {
      throw badRequest(`Object '${member}' is missing in '${printJson(fields)}'`);
    }
  }
  checkApiVersion(kind, apiVersion);
  if (name !== kind.kind) {
    throw invalid(toResourceRef(kind), textAt(fields, "metadata", "name"), [
      invalidValue("kind", name, `must be ${kind.kind}`),
    ]);
  }
}

function checkTypeMeta(kind: Kind, fields: Fields): void {
  const name = asText(fields["kind"]);
  if (kind.custom === undefined) {
    checkBuiltIn(kind, asText(fields["apiVersion"]), name);
  } else {
    checkCustom(kind, fields, name);
  }
}

/** Decodes only the metadata of a custom resource, because its schema validates all other fields. */
function readCustom(fields: Fields): DecodedShape {
  const { metadata } = fields;
  if (metadata === undefined || metadata === null) {
    return { fields, unknownPaths: [] };
  }
  if (!isFields(metadata)) {
    throw wrongType(metadata, ".metadata", "v1.ObjectMeta");
  }
  const decodedShape = decodeShape(metadata, OBJECT_META, "metadata");
  return {
    fields: { ...fields, metadata: decodedShape.fields },
    unknownPaths: decodedShape.unknownPaths,
  };
}

function readFields(kind: Kind, fields: Fields): DecodedShape {
  try {
    return kind.shape === undefined ? readCustom(fields) : decodeShape(fields, kind.shape);
  } catch (error) {
    if (error instanceof DecodeError) {
      const { kind: name, version } = kind;
      throw badRequest(
        `${name} in version "${version}" cannot be handled as a ${name}: ${error.message}`,
      );
    }
    throw error;
  }
}

/**
 * Decodes an object. The caller must not use `fields` afterwards. Throws a StatusError 400 or 422 if the object is malformed or invalid.
 */
export function decodeObject(kind: Kind, fields: Fields): DecodedObject {
  checkTypeMeta(kind, fields);
  const decodedShape = readFields(kind, fields);
  const object: KubeObject = {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: decodeMeta(decodedShape.fields["metadata"], kind.kind),
    ...without(decodedShape.fields, "apiVersion", "kind", "metadata"),
  };
  return {
    object,
    unknownPaths: [...decodedShape.unknownPaths, ...(kind.strategy.unknownFields?.(object) ?? [])],
  };
}

/** Decodes an object, and ignores unknown fields. @throws StatusError 400 or 422 */
export function toObject(kind: Kind, fields: Fields): KubeObject {
  return decodeObject(kind, fields).object;
}

const limitsByKind = new Map<string, KindLimits>();

function findLimits(kind: string): KindLimits {
  const limits = limitsByKind.get(kind) ?? buildKindLimits(kind);
  limitsByKind.set(kind, limits);
  return limits;
}

function findCustomProblem(kind: Kind, object: KubeObject): LimitProblem | undefined {
  const fields = without(object, "apiVersion", "kind", "metadata", "status");
  const problem = findBeyondLimit(fields, kind.custom?.schema ?? {}, "");
  // A maximum of a number is no limit of a size. The schema's validation reports it with the other causes.
  return problem?.keyword === "maximum" ? undefined : problem;
}

function findProblem(kind: Kind, object: KubeObject): LimitProblem | undefined {
  if (!kind.namespaced) return undefined;
  const { schema, defaults } = findLimits(kind.custom === undefined ? kind.kind : "");
  if (kind.custom === undefined) {
    return findBeyondLimit(without(object, "status"), schema, "", defaults);
  }
  const { metadata } = object;
  return findBeyondLimit({ metadata }, schema, "", defaults) ?? findCustomProblem(kind, object);
}

function toCause({ field, keyword, max, actual }: LimitProblem): Cause {
  if (keyword === "maxItems" || keyword === "maxProperties") {
    return tooManyValue(field, actual, max);
  }
  return keyword === "maximum"
    ? invalidValue(field, actual, `must be less than or equal to ${String(max)}`)
    : tooLongValue(field, max);
}

/** A stored object can be beyond a limit that is newer. Changes may leave or shrink its field. */
function isStored(problem: LimitProblem, stored: LimitProblem | undefined): boolean {
  return stored?.field === problem.field && problem.actual <= stored.actual;
}

/** Refuses an object beyond a limit with one cause. Patchbay's services are exempt, because a VM's own limits bound its launcher pod. */
export function checkLimits(
  { kind, user }: Pick<Call, "kind" | "user">,
  object: KubeObject,
  current?: KubeObject,
): void {
  if (user.name.startsWith(SERVICE_ACCOUNT_PREFIX)) return;
  const problem = findProblem(kind, object);
  if (problem === undefined) return;
  if (current !== undefined && isStored(problem, findProblem(kind, current))) return;
  throw invalid(toResourceRef(kind), object.metadata.name, [toCause(problem)]);
}

export function refuseInvalid(kind: Kind, name: string, causes: readonly Cause[]): void {
  if (causes.length > 0) throw invalid(toResourceRef(kind), name, causes);
}
