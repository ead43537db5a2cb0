// SPDX-License-Identifier: Apache-2.0
// Is JSON text nested deeper than code that walks it can follow, or does it hold more than can be worked on in one go?

/** No object of any use is nested that deep; walking is recursive everywhere. */
const DEPTH_MAX = 1000;
/**
 * Commas and opening brackets. To read, check, copy and print each takes some microseconds, in which nobody else is
 * served. The largest definitions of kinds in use have about half of that.
 */
export const VALUES_MAX = 32_768;

const QUOTE = 34;
const COMMA = 44;
const OPENING = new Set([91, 123]);
const CLOSING = new Set([93, 125]);

/** What is wrong with the extent of a text. */
export type ExtentFault = "deep" | "many";

/** Whether an odd number of backslashes comes before a quote. */
function isEscaped(text: string, quote: number): boolean {
  let first = quote;
  while (text[first - 1] === "\\") {
    first -= 1;
  }
  return (quote - first) % 2 === 1;
}

/** Position behind the string that begins at `start`. */
function afterString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end >= 0 && isEscaped(text, end)) {
    end = text.indexOf('"', end + 1);
  }
  return end < 0 ? text.length : end + 1;
}

/** How many levels deeper the text is behind a character. */
function levelsAt(code: number): number {
  if (OPENING.has(code)) {
    return 1;
  }
  return CLOSING.has(code) ? -1 : 0;
}

/** What is wrong with the extent of JSON text; undefined where nothing is. Ends at the first fault. */
export function extentFault(text: string, depthMax = DEPTH_MAX): ExtentFault | undefined {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = afterString(text, at);
      continue;
    }
    const levels = levelsAt(code);
    depth += levels;
    values += levels > 0 || code === COMMA ? 1 : 0;
    if (depth > depthMax || values > VALUES_MAX) {
      return depth > depthMax ? "deep" : "many";
    }
    at += 1;
  }
  return undefined;
}
