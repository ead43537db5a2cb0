// SPDX-License-Identifier: Apache-2.0
// Vocabulary for the tables of protobuf messages.

export type FieldType =
  | "text"
  /** Bytes, base64 in JSON. */
  | "bytes"
  | "integer"
  | "boolean"
  /** An integer for which 0 means unset. Go always writes fields that are not pointers. */
  | "count"
  /** A boolean for which false means unset. */
  | "flag"
  | "time"
  | "microTime"
  | "integerOrText"
  | "quantity"
  /** Skipped, because the server sets the field itself. */
  | "ignored"
  /** No table describes the content. A body in which the field is not empty is rejected with 415. */
  | "empty"
  | { readonly message: string };

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly repeated?: "list" | "map";
}

export type Message = Readonly<Record<number, Field>>;

export function one(name: string, type: FieldType = "text"): Field {
  return { name, type };
}

export function list(name: string, type: FieldType = "text"): Field {
  return { name, type, repeated: "list" };
}

export function map(name: string, type: FieldType = "text"): Field {
  return { name, type, repeated: "map" };
}

export function message(name: string): FieldType {
  return { message: name };
}

export const METADATA: Field = one("metadata", message("ObjectMeta"));

/** Without a table for the status, only an empty status is accepted. */
export function withSpec(spec: string, status?: string): Message {
  const statusType = status === undefined ? "empty" : message(status);
  return { 1: METADATA, 2: one("spec", message(spec)), 3: one("status", statusType) };
}
