// SPDX-License-Identifier: Apache-2.0
// Reads JSON files without trusting their content.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { Files } from "@patchbay/core/interfaces";

export function parseFields(text: string | undefined): JsonObject | undefined {
  const value = parseJson(text);
  return isJsonObject(value) ? value : undefined;
}

export async function readFields(files: Files, path: string): Promise<JsonObject | undefined> {
  return parseFields(await files.readText(path));
}

export function readText(fields: JsonObject | undefined, name: string): string {
  const value = fields?.[name];
  return typeof value === "string" ? value : "";
}

export function readNumber(fields: JsonObject | undefined, name: string): number | undefined {
  const value = fields?.[name];
  return typeof value === "number" ? value : undefined;
}
