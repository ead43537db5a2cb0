// SPDX-License-Identifier: Apache-2.0
// Prints numbers of bytes in a readable unit.

const UNITS = ["B", "kB", "MB", "GB", "TB"];
const UNIT_FACTOR = 1000;
/** Values below this limit are printed with one decimal place, unless the unit is bytes. */
const DECIMAL_MAX = 10;

/** Prints at most three digits, for example `364 MB` or `1.2 GB`. Returns "" if the size is unknown. */
export function printSize(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  // A value that rounds to 1000 becomes 1 of the next unit.
  while (Math.round(value) >= UNIT_FACTOR && unit < UNITS.length - 1) {
    value /= UNIT_FACTOR;
    unit += 1;
  }
  const digits = unit > 0 && value < DECIMAL_MAX ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}
