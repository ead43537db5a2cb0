// SPDX-License-Identifier: Apache-2.0
// JSON whose shape is not known yet. A door of its own (`@patchbay/api/json`): it loads no schema.

/** A JSON object; what its members are is still to be asked. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether the value is a JSON object: no list, no null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
