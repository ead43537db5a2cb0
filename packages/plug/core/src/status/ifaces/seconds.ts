// SPDX-License-Identifier: Apache-2.0
// How long something took, for people.

const MS_PER_SECOND = 1000;

/** Times below a hundredth of a second are none to a person. */
export function saySeconds(ms: number): string {
  const seconds = ms / MS_PER_SECOND;
  return `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`;
}
