// SPDX-License-Identifier: Apache-2.0
// Words for writing down protobuf messages.

/** How a field is read. `message` names another table. */
export type FieldType =
  | "text"
  /** Bytes, base64 in JSON. */
  | "bytes"
  | "integer"
  | "boolean"
  /** An integer whose 0 means absent: Go writes fields that are no pointers always. */
  | "count"
  /** A truth value whose false means absent. */
  | "flag"
  | "time"
  | "microTime"
  | "integerOrText"
  | "quantity"
  /** The server sets the field itself and never reads it from a body. */
  | "ignored"
  /** No table describes the content, so a body that has any is refused with 415 instead of losing it. */
  | "empty"
  | { readonly message: string };

/** One field: its name in JSON, its type, whether there may be several, or whether it maps names to values. */
export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly many?: "list" | "map";
}

/** Fields by number. */
export type Message = Readonly<Record<number, Field>>;

/** A field that is there once. */
export function one(name: string, type: FieldType = "text"): Field {
  return { name, type };
}

/** A field that may be there several times. */
export function list(name: string, type: FieldType = "text"): Field {
  return { name, type, many: "list" };
}

/** A field that maps names to values. */
export function map(name: string, type: FieldType = "text"): Field {
  return { name, type, many: "map" };
}

/** The type of a field that is a message of this name. */
export function message(name: string): FieldType {
  return { message: name };
}

/** Metadata, the first field of every kind. */
export const METADATA: Field = one("metadata", message("ObjectMeta"));

/** A kind with a specification. Without a table for its status, only bodies with an empty status are accepted. */
export function withSpec(spec: string, status?: string): Message {
  const statusType = status === undefined ? "empty" : message(status);
  return { 1: METADATA, 2: one("spec", message(spec)), 3: one("status", statusType) };
}
