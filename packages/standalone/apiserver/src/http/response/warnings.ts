// SPDX-License-Identifier: Apache-2.0
// Warning headers. Source: Kubernetes apiserver filters/warning.go, RFC 7234 section 5.5.
import type { ServerResponse } from "node:http";

/** Maximum total length of a response's warnings, in characters. If the warnings are longer, each is truncated. */
const TOTAL_MAX_LENGTH = 4096;
const TRUNCATED_MAX_LENGTH = 256;

const CONTROL = /\p{Cc}/u;

function truncate(text: string, maximum: number): string {
  return Array.from(text).slice(0, maximum).join("");
}

function fitTotal(texts: readonly string[]): readonly string[] {
  const lengths = texts.map((text) => Array.from(text).length);
  if (lengths.reduce((sum, length) => sum + length, 0) <= TOTAL_MAX_LENGTH) {
    return texts;
  }
  let writtenLength = 0;
  return texts
    .map((text) => truncate(text, TRUNCATED_MAX_LENGTH))
    .filter((text) => {
      const hasRoom = writtenLength < TOTAL_MAX_LENGTH;
      writtenLength += Array.from(text).length;
      return hasRoom;
    });
}

/** Converts warnings to header values. Leaves out warnings that a header cannot contain. */
export function warningValues(warnings: readonly string[]): string[] {
  const texts = [...new Set(warnings)].filter((text) => text !== "" && !CONTROL.test(text));
  return fitTotal(texts).map((text) => {
    const headerValue = `299 - "${text.replace(/[\\"]/g, "\\$&")}"`;
    // Node.js expects a header value with one character for each UTF-8 byte.
    return Buffer.from(headerValue, "utf8").toString("latin1");
  });
}

export function setWarnings(response: ServerResponse, warnings: readonly string[]): void {
  const values = warningValues(warnings);
  if (values.length > 0 && !response.headersSent) {
    response.setHeader("warning", values);
  }
}
