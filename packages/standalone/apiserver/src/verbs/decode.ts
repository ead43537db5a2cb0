// SPDX-License-Identifier: Apache-2.0
import { badRequest, invalid } from "../meta/status.ts";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { invalidValue } from "../meta/causes.ts";
import { decodeMeta } from "../meta/metadata.ts";
import { type Fields, asText, isFields, printJson, textAt, without } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type DecodedShape, decodeShape } from "../shapes/decode-shape.ts";
import { DecodeError, wrongType } from "../shapes/scalar.ts";
import { OBJECT_META } from "../shapes/shape.ts";
import { toResourceRef } from "./call.ts";

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
