// SPDX-License-Identifier: Apache-2.0
// What becomes of `$(NAME)` in a variable, a command or an argument? Its length is known before it is made: variables that
// name one another twice each double with every one of them.

/** Longest text that a program can be given, bytes. Source: linux/binfmts.h, MAX_ARG_STRLEN with its zero byte. */
const TEXT_MAX = 131_071;
/** All that a program can be given, bytes. Source: execve(2): a quarter of the stack's limit, which is 8 MiB. */
const ALL_MAX = 2 * 1024 * 1024;

/** For people. */
export const ROOM = `${String(TEXT_MAX)} bytes in one, ${String(ALL_MAX / 2 ** 20)} MiB in all`;

const REFERENCE = /\$(\$|\(([^()]*)\))/g;

/** What a reference stands for: a variable's value, `$$` a dollar; unknown names stay. Source: Kubernetes "expansion". */
function meant(
  [whole, kind, name = ""]: readonly (string | undefined)[],
  variables: ReadonlyMap<string, string>,
): string {
  return kind === "$" ? "$" : (variables.get(name) ?? whole ?? "");
}

/** Whether the text, expanded, is one that a program can be given. */
function isPossible(text: string, variables: ReadonlyMap<string, string>): boolean {
  let bytes = Buffer.byteLength(text);
  for (const match of text.matchAll(REFERENCE)) {
    bytes += Buffer.byteLength(meant(match, variables)) - Buffer.byteLength(match[0]);
    if (bytes > TEXT_MAX) return false;
  }
  return bytes <= TEXT_MAX;
}

/** The text with each `$(NAME)` replaced, once; undefined where it would be longer than a program can be given. */
export function expand(text: string, variables: ReadonlyMap<string, string>): string | undefined {
  if (!isPossible(text, variables)) return undefined;
  return text.replace(REFERENCE, (...match: readonly string[]) => meant(match, variables));
}

/** Room for what one program is given, its variables and its arguments together. */
export class ProgramRoom {
  #left = ALL_MAX;

  /** Whether there is room for this one as well; it is taken then. */
  take(text: string): boolean {
    const bytes = Buffer.byteLength(text);
    this.#left -= bytes + 1; // the zero byte
    return bytes <= TEXT_MAX && this.#left >= 0;
  }
}
