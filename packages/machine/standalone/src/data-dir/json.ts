// SPDX-License-Identifier: Apache-2.0
// Small JSON files of ours, read without trust.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { Files } from "@patchbay/core/ports";

/** Parses an object; undefined for any other text. */
export function parseFields(text: string | undefined): JsonObject | undefined {
  const value = parseJson(text);
  return isJsonObject(value) ? value : undefined;
}

/** Reads an object from a file; undefined when there is none. */
export async function readFields(files: Files, path: string): Promise<JsonObject | undefined> {
  return parseFields(await files.readText(path));
}

/** The member when it is text, else empty text. */
export function textOf(fields: JsonObject | undefined, name: string): string {
  const value = fields?.[name];
  return typeof value === "string" ? value : "";
}

/** The member when it is a number. */
export function numberOf(fields: JsonObject | undefined, name: string): number | undefined {
  const value = fields?.[name];
  return typeof value === "number" ? value : undefined;
}
