// SPDX-License-Identifier: Apache-2.0
// How large is it, for a person?

const UNITS = ["B", "kB", "MB", "GB", "TB"];
const STEP = 1000;
/** From here on a digit behind the point says nothing. */
const WHOLE = 10;

/** Three digits at most, for example `364 MB` or `1.2 GB`; empty when it is not known. */
export function printSize(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  // What would be printed as 1000 is 1 of the next.
  while (Math.round(value) >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit += 1;
  }
  const digits = unit > 0 && value < WHOLE ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}
