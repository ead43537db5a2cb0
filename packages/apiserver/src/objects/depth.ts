// SPDX-License-Identifier: Apache-2.0
// Is JSON text nested deeper than code that walks it can follow?

/** No object of any use is nested that deep; walking is recursive everywhere. */
const DEPTH_MAX = 1000;

const QUOTE = 34;
const BACKSLASH = 92;
const OPENING = new Set([91, 123]);
const CLOSING = new Set([93, 125]);

/** Position behind the string that begins at `start`. */
function afterString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE) {
    at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  }
  return at + 1;
}

/** Whether JSON text is nested too deep to be worked on. */
export function isTooDeep(text: string): boolean {
  if (text.length <= DEPTH_MAX) {
    return false;
  }
  let depth = 0;
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = afterString(text, at);
      continue;
    }
    depth += OPENING.has(code) ? 1 : CLOSING.has(code) ? -1 : 0;
    if (depth > DEPTH_MAX) {
      return true;
    }
    at += 1;
  }
  return false;
}
