// SPDX-License-Identifier: Apache-2.0
// Small JSON files of ours, read without trust.
import type { Files } from "@patchbay/ports";

/** A JSON object of unknown content. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** Whether the value is a JSON object. */
export function isFields(value: unknown): value is JsonFields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses an object; undefined for any other text. */
export function parseFields(text: string | undefined): JsonFields | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Reads an object from a file; undefined when there is none. */
export async function readFields(files: Files, path: string): Promise<JsonFields | undefined> {
  return parseFields(await files.readText(path));
}

/** The member when it is text, else empty text. */
export function textOf(fields: JsonFields | undefined, name: string): string {
  const value = fields?.[name];
  return typeof value === "string" ? value : "";
}

/** The member when it is a number. */
export function numberOf(fields: JsonFields | undefined, name: string): number | undefined {
  const value = fields?.[name];
  return typeof value === "number" ? value : undefined;
}
