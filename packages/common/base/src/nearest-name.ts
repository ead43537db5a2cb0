// SPDX-License-Identifier: Apache-2.0

/** Edits that count as a typing error: half the name's length, from one to three. */
function allowedEdits({ length }: string): number {
  return Math.min(3, Math.max(1, Math.floor(length / 2)));
}

interface Rows {
  readonly before: readonly number[];
  readonly last: readonly number[];
}

function nextRow(
  { before, last }: Rows,
  { from, to, row }: { readonly from: string; readonly to: string; readonly row: number },
): readonly number[] {
  const next = [row];
  for (let column = 1; column <= to.length; column += 1) {
    const isSame = from[row - 1] === to[column - 1];
    const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
    const replaced = (last[column - 1] ?? 0) + (isSame ? 0 : 1);
    const swapped = isSwapped ? (before[column - 2] ?? Infinity) + 1 : Infinity;
    const added = Math.min(last[column] ?? 0, next[column - 1] ?? 0) + 1;
    next.push(Math.min(replaced, swapped, added));
  }
  return next;
}

/** Insertions, deletions, replacements and swaps of adjacent characters. Source: optimal string alignment distance. */
function distance(from: string, to: string): number {
  let rows: Rows = { before: [], last: Array.from({ length: to.length + 1 }, (_, at) => at) };
  for (let row = 1; row <= from.length; row += 1) {
    rows = { before: rows.last, last: nextRow(rows, { from, to, row }) };
  }
  return rows.last.at(-1) ?? 0;
}

/** Longest name to compare, in characters. The comparison takes quadratic time. */
const LENGTH_MAX = 64;

/** Returns the nearest name, the alphabetically first of equally near ones, or undefined if none is near. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  if (name.length > LENGTH_MAX) return undefined;
  const near = names
    .filter(({ length }) => Math.abs(length - name.length) <= allowedEdits(name))
    .map((each) => ({ each, edits: distance(name, each) }))
    .filter(({ edits }) => edits <= allowedEdits(name))
    .sort((a, b) => a.edits - b.edits || (a.each < b.each ? -1 : 1));
  return near[0]?.each;
}
