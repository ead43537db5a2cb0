// SPDX-License-Identifier: Apache-2.0

/** Source: Kubernetes metav1.Time. `ms` counts from 1970. */
export function rfc3339(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a given time, does not read the clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds since 1970, or NaN. */
export function parseTime(text: string): number {
  // oxlint-disable-next-line no-restricted-globals -- parses a given time, does not read the clock
  return Date.parse(text);
}
