// SPDX-License-Identifier: Apache-2.0
// `Warning` headers. Source: Kubernetes apiserver filters/warning.go, RFC 7234 section 5.5.
import type { ServerResponse } from "node:http";

/** Above so many characters in all, each warning is cut. */
const TOTAL_MAX = 4096;
/** Characters of a warning that is cut. */
const CUT_MAX = 256;

// Headers cannot carry control characters.
const CONTROL = /\p{Cc}/u;

function cut(text: string, maximum: number): string {
  return Array.from(text).slice(0, maximum).join("");
}

/** Warnings as long as there is room. */
function fitting(texts: readonly string[]): readonly string[] {
  const lengths = texts.map((text) => Array.from(text).length);
  if (lengths.reduce((sum, length) => sum + length, 0) <= TOTAL_MAX) {
    return texts;
  }
  let written = 0;
  return texts
    .map((text) => cut(text, CUT_MAX))
    .filter((text) => {
      const hasRoom = written < TOTAL_MAX;
      written += Array.from(text).length;
      return hasRoom;
    });
}

/** Values of `Warning` headers: each warning once, those that no header can carry left out. */
export function warningValues(warnings: readonly string[]): string[] {
  const texts = [...new Set(warnings)].filter((text) => text !== "" && !CONTROL.test(text));
  return fitting(texts).map((text) => {
    const quoted = `299 - "${text.replace(/[\\"]/g, "\\$&")}"`;
    // Node wants one character for each byte.
    return Buffer.from(quoted, "utf8").toString("latin1");
  });
}

/** Puts warnings into the head of an answer that is not sent yet. */
export function setWarnings(response: ServerResponse, warnings: readonly string[]): void {
  const values = warningValues(warnings);
  if (values.length > 0 && !response.headersSent) {
    response.setHeader("warning", values);
  }
}
