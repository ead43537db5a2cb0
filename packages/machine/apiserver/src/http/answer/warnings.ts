// SPDX-License-Identifier: Apache-2.0
// How warnings reach the client: `Warning` headers.
import type { ServerResponse } from "node:http";
import { warningValues } from "./warning-values.ts";

/** Puts warnings into the head of an answer that is not sent yet. */
export function setWarnings(response: ServerResponse, warnings: readonly string[]): void {
  const values = warningValues(warnings);
  if (values.length > 0 && !response.headersSent) {
    response.setHeader("warning", values);
  }
}
