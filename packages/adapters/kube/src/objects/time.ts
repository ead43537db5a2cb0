// SPDX-License-Identifier: Apache-2.0
// Times as objects carry them.

/** RFC 3339 with milliseconds, for `ms` since 1970. */
export function printTime(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return new Date(ms).toISOString();
}

/** RFC 3339 with microseconds, as leases and events have it. Source: Kubernetes metav1.MicroTime. */
export function printMicroTime(ms: number): string {
  return printTime(ms).replace("Z", "000Z");
}

/** Milliseconds since 1970; NaN when the text is no time. */
export function parseTime(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(text);
}
