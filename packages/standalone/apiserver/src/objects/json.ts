// SPDX-License-Identifier: Apache-2.0
// Parses and prints JSON. Integers beyond 2^53 are parsed to bigint, so that they are not rounded.

/** Matches integers of 16 or more digits, which need the slower reviver. */
const LONG_INTEGER = /[:[,\s-]\d{16,}/;
const INTEGER = /^-?\d+$/;

/** Reviver that receives the source text (ES2025), which TypeScript's library does not declare. */
type SourceReviver = (
  key: string,
  value: unknown,
  context: { readonly source?: string },
) => unknown;
type SourceParse = (text: string, reviver: SourceReviver) => unknown;
/** JSON.rawJSON (ES2025), which TypeScript's library does not declare. */
type RawJson = { readonly rawJSON: (text: string) => unknown };

function reviveLongIntegers(
  _key: string,
  value: unknown,
  context: { readonly source?: string },
): unknown {
  const { source } = context;
  if (typeof value !== "number" || Number.isSafeInteger(value)) {
    return value;
  }
  // Rejects numbers beyond the range of a double, as Go does. A bigint with a million digits would take seconds to parse.
  if (!Number.isFinite(value)) {
    throw new SyntaxError("a number is out of range");
  }
  return source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
}

/** Parses JSON. Converts unsafe integers to bigint. Throws a SyntaxError if the text is malformed. */
export function parseJson(text: string): unknown {
  if (!LONG_INTEGER.test(text)) {
    return JSON.parse(text);
  }
  return (JSON.parse as SourceParse)(text, reviveLongIntegers);
}

/** Replaces scalars whose text differs from Go's encoding, because NaN is not equal to any value. */
const NON_CANONICAL = NaN;

/** Prints JSON with the escapes of Go. Source: Go encoding/json, HTMLEscape. */
function printLikeGo(value: unknown): string {
  const escapeLetter = (letter: string): string =>
    `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return printJson(value).replace(/[<>&\u2028\u2029]/g, escapeLetter);
}

/**
 * Parses JSON for comparisons. Kubernetes' JSON patch library compares encoded text, so a scalar whose text differs from
 * Go's encoding, for example `1.0`, is not equal to any value. Throws a SyntaxError.
 */
export function parseCanonical(text: string): unknown {
  return (JSON.parse as SourceParse)(text, (key, parsedValue, context) => {
    const value = reviveLongIntegers(key, parsedValue, context);
    const { source } = context;
    return source === undefined || source === printLikeGo(value) ? value : NON_CANONICAL;
  });
}

function replaceLongIntegers(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? (JSON as unknown as RawJson).rawJSON(String(value)) : value;
}

export function printJson(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, undefined, indent);
  } catch (error) {
    if (!(error instanceof TypeError)) {
      throw error;
    }
    return JSON.stringify(value, replaceLongIntegers, indent);
  }
}

/** Sets a field, even one that is named `__proto__`. */
export function setField(fields: Fields, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(fields, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  } else {
    fields[key] = value;
  }
}

function copyValue(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(copyValue);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const copy: Fields = {};
  for (const [key, field] of Object.entries(value)) {
    if (field !== undefined) setField(copy, key, copyValue(field));
  }
  return copy;
}

/** Copies JSON data deeply and drops undefined members. */
export function copyJson<T>(value: T): T {
  return copyValue(value) as T;
}

function equalArrays(left: readonly unknown[], right: readonly unknown[]): boolean {
  return left.length === right.length && left.every((item, index) => equalJson(item, right[index]));
}

function equalRecords(
  left: Readonly<Record<string, unknown>>,
  right: Readonly<Record<string, unknown>>,
): boolean {
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equalJson(left[key], right[key]))
  );
}

export function equalJson(left: unknown, right: unknown): boolean {
  if (left === right) {
    return true;
  }
  if (Array.isArray(left) || Array.isArray(right)) {
    return Array.isArray(left) && Array.isArray(right) && equalArrays(left, right);
  }
  return isFields(left) && isFields(right) && equalRecords(left, right);
}

export type Fields = Record<string, unknown>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asFields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function valueAt(value: unknown, ...path: readonly string[]): unknown {
  let current = value;
  for (const key of path) {
    if (!isFields(current) || !Object.hasOwn(current, key)) {
      return undefined;
    }
    current = current[key];
  }
  return current;
}

/** Returns the string at a path of keys, or an empty string. */
export function textAt(value: unknown, ...path: readonly string[]): string {
  const result = valueAt(value, ...path);
  return typeof result === "string" ? result : "";
}

export function without(fields: Fields, ...keys: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !keys.includes(key)));
}

/** Returns strings unchanged, an empty string for null and undefined, and JSON for all other values. */
export function asText(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  return value === undefined || value === null ? "" : printJson(value);
}
