// SPDX-License-Identifier: Apache-2.0
// Do the defaults in a schema keep to the schema?
import type { Cause } from "../meta/status.ts";
import { invalidValue } from "../meta/causes.ts";
import { type Fields, fieldsOf, isFields } from "../objects/json.ts";
import { type Schema, itemSchema } from "../schema/structural.ts";
import { makeValidator } from "../schema/validator.ts";

function ownCauses(schema: Schema, path: string): Cause[] {
  if (schema["default"] === undefined) {
    return [];
  }
  const wrapped: Fields = { type: "object", properties: { default: schema } };
  return makeValidator(wrapped)({ default: schema["default"] }).map((cause) =>
    invalidValue(`${path}.default`, schema["default"], cause.message),
  );
}

/** Causes for which the defaults below a schema are refused. */
export function defaultCauses(schema: Schema, path: string): Cause[] {
  const items = itemSchema(schema);
  const { additionalProperties } = schema;
  return [
    ...ownCauses(schema, path),
    ...Object.entries(fieldsOf(schema["properties"])).flatMap(([key, property]) =>
      defaultCauses(fieldsOf(property), `${path}.properties[${key}]`),
    ),
    ...(items === undefined ? [] : defaultCauses(items, `${path}.items`)),
    ...(isFields(additionalProperties)
      ? defaultCauses(additionalProperties, `${path}.additionalProperties`)
      : []),
  ];
}
