// SPDX-License-Identifier: Apache-2.0
// How single causes of a refusal are worded. Source: Kubernetes util/validation/field.
import type { Cause } from "./status.ts";
import { printJson } from "../objects/json.ts";

function shown(value: unknown): string {
  return value === undefined ? "null" : printJson(value);
}

/** A value that is wrong. */
export function invalidValue(field: string, value: unknown, why: string): Cause {
  return { reason: "FieldValueInvalid", message: `Invalid value: ${shown(value)}: ${why}`, field };
}

/** A value that is missing. */
export function requiredValue(field: string, why = ""): Cause {
  const message = why === "" ? "Required value" : `Required value: ${why}`;
  return { reason: "FieldValueRequired", message, field };
}

/** A value that may not be given. */
export function forbiddenValue(field: string, why: string): Cause {
  return { reason: "FieldValueForbidden", message: `Forbidden: ${why}`, field };
}

/** A value that is there twice. */
export function duplicateValue(field: string, value: unknown): Cause {
  return { reason: "FieldValueDuplicate", message: `Duplicate value: ${shown(value)}`, field };
}

/** A value that names something that is not there. */
export function notFoundValue(field: string, value: unknown): Cause {
  return { reason: "FieldValueNotFound", message: `Not found: ${shown(value)}`, field };
}

/** A value outside of a closed list. */
export function unsupportedValue(
  field: string,
  value: unknown,
  supported: readonly unknown[],
): Cause {
  const list = supported.map(shown).join(", ");
  const message = `Unsupported value: ${shown(value)}: supported values: ${list}`;
  return { reason: "FieldValueNotSupported", message, field };
}

/** A list that has more items than allowed. */
export function tooManyValue(field: string, count: number, maximum: number): Cause {
  const message = `Too many: ${String(count)}: must have at most ${String(maximum)} items`;
  return { reason: "FieldValueTooMany", message, field };
}

/** A value that has more bytes than allowed. */
export function tooLongValue(field: string, maximum: number): Cause {
  const message = `Too long: must have at most ${String(maximum)} bytes`;
  return { reason: "FieldValueTooLong", message, field };
}
