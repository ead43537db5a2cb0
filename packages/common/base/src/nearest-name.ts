// SPDX-License-Identifier: Apache-2.0

/** Returns the maximum number of edits between a misspelled name and its correction: half of its length, at least 1 and at most 3. */
function computeEditsMax({ length }: string): number {
  return Math.min(3, Math.max(1, Math.floor(length / 2)));
}

interface PreviousRows {
  readonly secondLast: readonly number[];
  readonly last: readonly number[];
}

function computeNextRow(
  { secondLast, last }: PreviousRows,
  { from, to, row }: { readonly from: string; readonly to: string; readonly row: number },
): readonly number[] {
  const next = [row];
  for (let column = 1; column <= to.length; column += 1) {
    const isSame = from[row - 1] === to[column - 1];
    const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
    const replaceEdits = (last[column - 1] ?? 0) + (isSame ? 0 : 1);
    const swapEdits = isSwapped ? (secondLast[column - 2] ?? Infinity) + 1 : Infinity;
    const addEdits = Math.min(last[column] ?? 0, next[column - 1] ?? 0) + 1;
    next.push(Math.min(replaceEdits, swapEdits, addEdits));
  }
  return next;
}

/** Counts insertions, deletions, replacements and swaps. Source: optimal string alignment distance. */
function countEdits(from: string, to: string): number {
  let rows: PreviousRows = {
    secondLast: [],
    last: Array.from({ length: to.length + 1 }, (_, column) => column),
  };
  for (let row = 1; row <= from.length; row += 1) {
    rows = { secondLast: rows.last, last: computeNextRow(rows, { from, to, row }) };
  }
  return rows.last.at(-1) ?? 0;
}

/** Longer names are not compared, because the comparison takes quadratic time. */
const LENGTH_MAX = 64;

/**
 * Returns the name that needs the fewest edits, or the alphabetically first of several such names. Returns undefined if `name` is too long
 * or if all names need too many edits.
 */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  if (name.length > LENGTH_MAX) return undefined;
  const near = names
    .filter(({ length }) => Math.abs(length - name.length) <= computeEditsMax(name))
    .map((each) => ({ each, edits: countEdits(name, each) }))
    .filter(({ edits }) => edits <= computeEditsMax(name))
    .sort((a, b) => a.edits - b.edits || (a.each < b.each ? -1 : 1));
  return near[0]?.each;
}
