// SPDX-License-Identifier: Apache-2.0
// How a change of one object is told to an API server.

/** One operation of a JSON patch, as far as Patchbay sends or answers them; a path is a JSON pointer. Source: RFC 6902 section 4. */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };
