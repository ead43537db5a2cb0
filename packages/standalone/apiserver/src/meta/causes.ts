// SPDX-License-Identifier: Apache-2.0
// Field errors of 422 responses. Source: Kubernetes util/validation/field.
import { cutText } from "@patchbay/api/limits";
import type { Cause } from "./status.ts";
import { printJson } from "../objects/json.ts";

const VALUE_LENGTH_MAX = 1024;

function printValue(value: unknown): string {
  if (value === undefined) return "null";
  return typeof value === "string"
    ? printJson(cutText(value, VALUE_LENGTH_MAX))
    : cutText(printJson(value), VALUE_LENGTH_MAX);
}

export function invalidValue(field: string, value: unknown, detail: string): Cause {
  return {
    reason: "FieldValueInvalid",
    message: `Invalid value: ${printValue(value)}: ${detail}`,
    field,
  };
}

export function requiredValue(field: string, detail = ""): Cause {
  const message = detail === "" ? "Required value" : `Required value: ${detail}`;
  return { reason: "FieldValueRequired", message, field };
}

export function forbiddenValue(field: string, detail: string): Cause {
  return { reason: "FieldValueForbidden", message: `Forbidden: ${detail}`, field };
}

export function duplicateValue(field: string, value: unknown): Cause {
  return { reason: "FieldValueDuplicate", message: `Duplicate value: ${printValue(value)}`, field };
}

export function notFoundValue(field: string, value: unknown): Cause {
  return { reason: "FieldValueNotFound", message: `Not found: ${printValue(value)}`, field };
}

export function unsupportedValue(
  field: string,
  value: unknown,
  supported: readonly unknown[],
): Cause {
  const list = supported.map(printValue).join(", ");
  const message = `Unsupported value: ${printValue(value)}: supported values: ${list}`;
  return { reason: "FieldValueNotSupported", message, field };
}

export function tooManyValue(field: string, count: number, maximum: number): Cause {
  const message = `Too many: ${String(count)}: must have at most ${String(maximum)} items`;
  return { reason: "FieldValueTooMany", message, field };
}

export function tooLongValue(field: string, maximum: number): Cause {
  const message = `Too long: must have at most ${String(maximum)} bytes`;
  return { reason: "FieldValueTooLong", message, field };
}
