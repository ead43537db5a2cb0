// SPDX-License-Identifier: Apache-2.0

export type FieldType =
  | "text"
  /** Bytes, which are base64 in JSON. */
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
  /** A field that is skipped, because the server sets it. */
  | "ignored"
  /** A message without a table. A body in which the field is not empty is rejected with 415. */
  | "empty"
  | { readonly message: string };

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  /** `inline`: the message's fields belong to the outer object in JSON. Unset for a single value. */
  readonly collection?: "list" | "map" | "inline";
}

export type Message = Readonly<Record<number, Field>>;

export function single(name: string, type: FieldType = "text"): Field {
  return { name, type };
}

export function list(name: string, type: FieldType = "text"): Field {
  return { name, type, collection: "list" };
}

export function map(name: string, type: FieldType = "text"): Field {
  return { name, type, collection: "map" };
}

export function message(name: string): FieldType {
  return { message: name };
}

export function inline(name: string): Field {
  return { name, type: message(name), collection: "inline" };
}

export const METADATA: Field = single("metadata", message("ObjectMeta"));

/** Builds a message with a spec. If `status` is undefined, only an empty status is accepted. */
export function withSpec(spec: string, status?: string): Message {
  const statusType = status === undefined ? "empty" : message(status);
  return { 1: METADATA, 2: single("spec", message(spec)), 3: single("status", statusType) };
}
