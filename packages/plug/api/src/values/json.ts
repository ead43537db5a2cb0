// SPDX-License-Identifier: Apache-2.0
// JSON whose shape is not known yet. A door of its own (`@patchbay/api/json`): it loads no schema.
/** A JSON object; what its members are is still to be asked. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether the value is a JSON object: no list, no null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What Go's encoder never writes as it is, though JSON would let it. Source: Go encoding/json, HTMLEscape. */
const GO_ESCAPED = /[<>&\u2028\u2029]/g;

/**
 * JSON as Go's encoder writes it. An API server compares a JSON patch's `test` with an object byte by byte, in the text
 * that this encoder makes of the object: a `<` that is sent as itself is equal to none.
 */
export function printGoJson(value: unknown): string {
  return JSON.stringify(value).replace(
    GO_ESCAPED,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The value that the text says; undefined when there is none or it is no JSON, so that a reader has one case to refuse. */
export function parseJson(text: string | undefined): unknown {
  // To throw and catch costs more than to read what is there, and most objects do not have it.
  if (text === undefined || text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** One operation of a JSON patch, as far as Patchbay sends or answers them; a path is a JSON pointer. Source: RFC 6902 section 4. */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };
