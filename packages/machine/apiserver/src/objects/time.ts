// SPDX-License-Identifier: Apache-2.0
// How times are written in objects. Reads no clock.

/** RFC 3339 with seconds, as Kubernetes writes metav1.Time. `ms`: since 1970. */
export function rfc3339(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a given time, does not read the clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds since 1970; NaN when the text is no time. */
export function parseTime(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- parses a given time, does not read the clock
  return Date.parse(text);
}
