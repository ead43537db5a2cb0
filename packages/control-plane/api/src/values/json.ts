// SPDX-License-Identifier: Apache-2.0
// Helpers for JSON of unknown shape. Their separate entry point `@patchbay/api/json` lets importers avoid loading the schemas.
export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function valueAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, field) => (isJsonObject(inner) ? inner[field] : undefined),
    value,
  );
}

/** Returns the string at the path; undefined if the value is empty or not a string. */
export function readTextAt(value: unknown, ...path: readonly string[]): string | undefined {
  const text = valueAt(value, ...path);
  return typeof text === "string" && text !== "" ? text : undefined;
}

/** Characters that Go's encoder escapes. Source: Go encoding/json, HTMLEscape. */
const GO_ESCAPED_CHARACTERS = /[<>&\u2028\u2029]/g;

/** Prints JSON like Go's encoder, because API servers compare the `test` value of a JSON patch with Go's encoding. */
export function printGoJson(value: unknown): string {
  return JSON.stringify(value).replace(
    GO_ESCAPED_CHARACTERS,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Parses JSON. Returns undefined if the text is missing, empty or malformed. */
export function parseJson(text: string | undefined): unknown {
  // Callers often pass an unset annotation. Returning early avoids an exception of JSON.parse, which would be slow.
  if (text === undefined || text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Operation of a JSON patch that Patchbay sends or receives; `path` is a JSON pointer. Source: RFC 6902 section 4. */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };
