// SPDX-License-Identifier: Apache-2.0
// The seed of random tests: fixed in the short form, the date in the long form.

/** Fixed, so that repeated runs of a change have the same result. */
const SHORT_FORM_SEED = 20_260_101;

/** Today in UTC, such as 20260131: other examples each day, the same for every run of a day. */
function readDate(): number {
  return Number(new Date().toISOString().slice(0, 10).replaceAll("-", ""));
}

export const SEED = process.env["PATCHBAY_LONG"] === "1" ? readDate() : SHORT_FORM_SEED;
