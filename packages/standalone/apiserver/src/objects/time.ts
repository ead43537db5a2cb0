// SPDX-License-Identifier: Apache-2.0

/** Converts milliseconds since 1970 to a time in RFC 3339 format, without fractions of seconds. Source: Kubernetes metav1.Time. */
export function rfc3339(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a given time, does not read the clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

export function parseTime(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- parses a given time, does not read the clock
  return Date.parse(text);
}
