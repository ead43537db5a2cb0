// SPDX-License-Identifier: Apache-2.0
// Prints aligned columns.
import { indentLines, escapeLine } from "./safe.ts";

/** Prints a table with three spaces between columns. An empty cell is printed as `-`. */
export function printTable(
  headers: readonly string[],
  rows: readonly (readonly (string | undefined)[])[],
): string {
  const cells = rows.map((row) =>
    row.map((cell) => (cell === undefined || cell === "" ? "-" : escapeLine(cell))),
  );
  const widths = headers.map((header, column) =>
    Math.max(header.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const printRow = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("   ")
      .trimEnd();
  return `${[headers, ...cells].map(printRow).join("\n")}\n`;
}

/** Prints lines `name: value` with aligned values, which may have several lines. Omits pairs without a value. */
export function printPairs(
  pairs: readonly (readonly [string, string | undefined])[],
  indent: string,
): string {
  const shownPairs = pairs.filter(([, value]) => value !== undefined && value !== "");
  const width = Math.max(0, ...shownPairs.map(([name]) => name.length)) + 1;
  const continuationIndent = `${indent}${" ".repeat(width)} `;
  return shownPairs
    .map(([name, value = ""]) => {
      const label = `${name}:`.padEnd(width);
      return `${indent}${label} ${indentLines(value, continuationIndent)}\n`;
    })
    .join("");
}
