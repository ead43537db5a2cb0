// SPDX-License-Identifier: Apache-2.0
// How JSON text is read and written without losing integers beyond 2^53: they become bigint, and only they.

/** An integer of 16 digits or more somewhere in the text: only then the slow reader is needed. */
const LONG_INTEGER = /[:[,\s-]\d{16,}/;
const INTEGER = /^-?\d+$/;

/** ES2025 gives revivers the source text; TypeScript's library does not say so yet. */
type SourceReviver = (
  key: string,
  value: unknown,
  context: { readonly source?: string },
) => unknown;
type SourceParse = (text: string, reviver: SourceReviver) => unknown;
/** ES2025 JSON.rawJSON, which the TypeScript library does not know yet. */
type RawJson = { readonly rawJSON: (text: string) => unknown };

function keepLongIntegers(
  _key: string,
  value: unknown,
  context: { readonly source?: string },
): unknown {
  const { source } = context;
  if (typeof value !== "number" || Number.isSafeInteger(value)) {
    return value;
  }
  // Go reads no such number either. To read one with a million digits, and to write it, would take seconds.
  if (!Number.isFinite(value)) {
    throw new SyntaxError("a number is out of all bounds");
  }
  return source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
}

/** Parses JSON; integers that a number cannot hold come back as bigint. Throws SyntaxError. */
export function parseJson(text: string): unknown {
  if (!LONG_INTEGER.test(text)) {
    return JSON.parse(text);
  }
  // The runtime's JSON.parse hands a context to the reviver (ES2025).
  return (JSON.parse as SourceParse)(text, keepLongIntegers);
}

/** Stands for a scalar whose text is not the one that Go's encoder gives it: it is equal to nothing. */
const OTHERWISE = NaN;

/** A scalar as Go's encoder writes it. Source: Go encoding/json, HTMLEscape. */
function goText(value: unknown): string {
  const escaped = (letter: string): string =>
    `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return printJson(value).replace(/[<>&\u2028\u2029]/g, escaped);
}

/**
 * Parses JSON that is to be compared as Kubernetes' library for JSON patches compares it: byte by byte with what Go's
 * encoder makes of an object. A scalar that is written otherwise is equal to nothing. Throws SyntaxError.
 */
export function parseAsWritten(text: string): unknown {
  return (JSON.parse as SourceParse)(text, (key, given, context) => {
    const value = keepLongIntegers(key, given, context);
    const { source } = context;
    return source === undefined || source === goText(value) ? value : OTHERWISE;
  });
}

function writeLongIntegers(_key: string, value: unknown): unknown {
  // The runtime has JSON.rawJSON (ES2025).
  return typeof value === "bigint" ? (JSON as unknown as RawJson).rawJSON(String(value)) : value;
}

/** Prints what `parseJson` gave. `indent`: spaces, for people. */
export function printJson(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, undefined, indent);
  } catch (error) {
    if (!(error instanceof TypeError)) {
      throw error;
    }
    return JSON.stringify(value, writeLongIntegers, indent);
  }
}

/** Sets a field; a key like `__proto__` is a key like any other. */
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

/** A deep copy of JSON data, without members that are undefined. */
export function copyJson<T>(value: T): T {
  // A copy has the form of what is copied.
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

/** Whether two JSON values are the same, whatever the order of their keys. */
export function equalJson(left: unknown, right: unknown): boolean {
  if (left === right) {
    return true;
  }
  if (Array.isArray(left) || Array.isArray(right)) {
    return Array.isArray(left) && Array.isArray(right) && equalArrays(left, right);
  }
  return isFields(left) && isFields(right) && equalRecords(left, right);
}

/** A JSON object. */
export type Fields = Record<string, unknown>;

/** Whether a JSON value is an object (not null, not an array). */
export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value as an object; an empty one where it is something else. Not a copy. */
export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {};
}

/** The value as a list; an empty one where it is something else. Not a copy. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value below a path of keys; undefined where there is none. */
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

/** The text below a path of keys; empty where there is none. */
export function textAt(value: unknown, ...path: readonly string[]): string {
  const found = valueAt(value, ...path);
  return typeof found === "string" ? found : "";
}

/** The fields without some of them. */
export function without(fields: Fields, ...keys: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !keys.includes(key)));
}

/** A value for people and comparisons: texts as they are, everything else as JSON. */
export function asText(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  return value === undefined || value === null ? "" : printJson(value);
}
