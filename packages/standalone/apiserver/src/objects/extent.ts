// SPDX-License-Identifier: Apache-2.0
// Limits on the depth and size of JSON, checked before it is parsed.

/** Maximum depth. Functions that walk JSON are recursive, so deeper objects could overflow the stack. */
const DEPTH_MAX = 1000;
/**
 * Maximum number of commas and opening brackets, an estimate of the number of values. Work on an object with many values
 * would block all other requests. The largest CustomResourceDefinitions in use have about half of this number.
 */
export const VALUES_MAX = 32_768;

const QUOTE = 34;
const COMMA = 44;
const OPENING = new Set([91, 123]);
const CLOSING = new Set([93, 125]);

export type ExtentFault = "deep" | "many";

function isEscaped(text: string, quote: number): boolean {
  let first = quote;
  while (text[first - 1] === "\\") {
    first -= 1;
  }
  return (quote - first) % 2 === 1;
}

function skipString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end >= 0 && isEscaped(text, end)) {
    end = text.indexOf('"', end + 1);
  }
  return end < 0 ? text.length : end + 1;
}

function depthChange(code: number): number {
  if (OPENING.has(code)) {
    return 1;
  }
  return CLOSING.has(code) ? -1 : 0;
}

export function extentFault(text: string, depthMax = DEPTH_MAX): ExtentFault | undefined {
  let depth = 0;
  let values = 0;
  for (let position = 0; position < text.length;) {
    const code = text.charCodeAt(position);
    if (code === QUOTE) {
      position = skipString(text, position);
      continue;
    }
    const levels = depthChange(code);
    depth += levels;
    values += levels > 0 || code === COMMA ? 1 : 0;
    if (depth > depthMax || values > VALUES_MAX) {
      return depth > depthMax ? "deep" : "many";
    }
    position += 1;
  }
  return undefined;
}

/** Counts commas and opening brackets outside of texts, as `extentFault` does. */
export function countValues(text: string): number {
  let values = 0;
  for (let position = 0; position < text.length;) {
    const code = text.charCodeAt(position);
    if (code === QUOTE) {
      position = skipString(text, position);
      continue;
    }
    values += OPENING.has(code) || code === COMMA ? 1 : 0;
    position += 1;
  }
  return values;
}
