// SPDX-License-Identifier: Apache-2.0
// Which fields does a JSON text have twice? Parsers keep the last one and say nothing.

/** Everything that has a meaning for the form of a text; numbers and words have none. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],]/g;

/** An object or a list that is open at a place in the text. */
interface Frame {
  /** Path to it. */
  readonly path: string;
  /** Keys so far; undefined for lists. */
  readonly keys: Set<string> | undefined;
  /** What the next value belongs to: a key, or an index. */
  at: string;
  index: number;
  /** Whether a string that comes now is a key. */
  expectsKey: boolean;
}

function pathBelow(frame: Frame | undefined): string {
  if (frame === undefined) {
    return "";
  }
  if (frame.keys === undefined) {
    return `${frame.path}[${String(frame.index)}]`;
  }
  return frame.path === "" ? frame.at : `${frame.path}.${frame.at}`;
}

function open(token: string, parent: Frame | undefined): Frame {
  const isObject = token === "{";
  return {
    path: pathBelow(parent),
    keys: isObject ? new Set() : undefined,
    at: "",
    index: 0,
    expectsKey: isObject,
  };
}

/** Reads a key; gives its path where it was there before. */
function readKey(frame: Frame, token: string): string | undefined {
  // The token is a complete JSON string. Few keys have escapes.
  frame.at = token.includes("\\") ? (JSON.parse(token) as string) : token.slice(1, -1);
  frame.expectsKey = false;
  const known = frame.keys?.has(frame.at) === true;
  frame.keys?.add(frame.at);
  return known ? pathBelow(frame) : undefined;
}

function separate(frame: Frame | undefined): void {
  if (frame !== undefined) {
    frame.index += 1;
    frame.expectsKey = frame.keys !== undefined;
  }
}

/** Paths of the fields that are there again, for example `spec.tags[1].a`, in the order of the text, which is JSON. */
export function duplicateFields(text: string): readonly string[] {
  const found: string[] = [];
  const stack: Frame[] = [];
  for (const [token] of text.matchAll(TOKEN)) {
    const top = stack.at(-1);
    if (token === "{" || token === "[") {
      stack.push(open(token, top));
    } else if (token === "}" || token === "]") {
      stack.pop();
    } else if (token === ",") {
      separate(top);
    } else if (top?.expectsKey === true) {
      const again = readKey(top, token);
      found.push(...(again === undefined ? [] : [again]));
    }
  }
  return found;
}
