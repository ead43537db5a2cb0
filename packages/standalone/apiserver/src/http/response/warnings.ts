// SPDX-License-Identifier: Apache-2.0
// Source: Kubernetes apiserver filters/warning.go, RFC 7234 section 5.5.
import type { ServerResponse } from "node:http";

/** In characters. Above this total, each warning is truncated. */
const TOTAL_MAX = 4096;
const TRUNCATED_MAX = 256;

const CONTROL = /\p{Cc}/u;

function truncate(text: string, maximum: number): string {
  return Array.from(text).slice(0, maximum).join("");
}

function fitTotal(texts: readonly string[]): readonly string[] {
  const lengths = texts.map((text) => Array.from(text).length);
  if (lengths.reduce((sum, length) => sum + length, 0) <= TOTAL_MAX) {
    return texts;
  }
  let written = 0;
  return texts
    .map((text) => truncate(text, TRUNCATED_MAX))
    .filter((text) => {
      const hasRoom = written < TOTAL_MAX;
      written += Array.from(text).length;
      return hasRoom;
    });
}

/** Leaves out warnings that a header cannot contain. */
export function warningValues(warnings: readonly string[]): string[] {
  const texts = [...new Set(warnings)].filter((text) => text !== "" && !CONTROL.test(text));
  return fitTotal(texts).map((text) => {
    const quoted = `299 - "${text.replace(/[\\"]/g, "\\$&")}"`;
    // Node.js expects one character for each byte.
    return Buffer.from(quoted, "utf8").toString("latin1");
  });
}

export function setWarnings(response: ServerResponse, warnings: readonly string[]): void {
  const values = warningValues(warnings);
  if (values.length > 0 && !response.headersSent) {
    response.setHeader("warning", values);
  }
}
