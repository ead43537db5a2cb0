// SPDX-License-Identifier: Apache-2.0
// The seed of random tests: fixed in the short form, the date in the long form.

/** A change gets the same verdict each time, whenever its tests run. */
const SHORT_FORM_SEED = 20_260_101;

/** Today in UTC, such as 20260131: each day draws other examples, and every run of a day draws the same. */
function readDate(): number {
  return Number(new Date().toISOString().slice(0, 10).replaceAll("-", ""));
}

export const SEED = process.env["PATCHBAY_LONG"] === "1" ? readDate() : SHORT_FORM_SEED;
