// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes for people.

const UNITS = ["B", "kB", "MB", "GB", "TB"];
const STEP = 1000;
/** Smaller values get one decimal place. */
const WHOLE = 10;

/** At most three digits, for example `364 MB` or `1.2 GB`; empty if the size is unknown. */
export function printSize(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  // A value that rounds to 1000 becomes 1 of the next unit.
  while (Math.round(value) >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit += 1;
  }
  const digits = unit > 0 && value < WHOLE ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}
