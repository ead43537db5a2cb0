// SPDX-License-Identifier: Apache-2.0
// Times as objects carry them, RFC 3339, and as they are reckoned with. No clock is read.

/** Milliseconds since 1970; what cannot be read is no time. */
export function toMs(time: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- reads a text, no clock
  const ms = time === undefined ? NaN : Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
}

/** RFC 3339, for milliseconds since 1970. */
export function printTime(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return new Date(ms).toISOString();
}
