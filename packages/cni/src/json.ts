// SPDX-License-Identifier: Apache-2.0
// Reads JSON text whose shape is not known yet.

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether the value is a JSON object: no list, no null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value, or undefined when the text is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The caller says what it expected instead.
    return undefined;
  }
}
