// SPDX-License-Identifier: Apache-2.0

/** Returns milliseconds since 1970; undefined if the text is missing or not a time. */
export function toMs(time: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- reads a text, no clock
  const ms = time === undefined ? NaN : Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
}

export function printTime(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return new Date(ms).toISOString();
}
