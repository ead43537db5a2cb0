// SPDX-License-Identifier: Apache-2.0

/** Milliseconds since 1970, or undefined if the text is no time. */
export function toMs(time: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- reads a text, no clock
  const ms = time === undefined ? NaN : Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
}

export function printTime(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return new Date(ms).toISOString();
}
