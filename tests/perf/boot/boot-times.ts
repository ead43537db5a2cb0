// SPDX-License-Identifier: Apache-2.0
// Figures of a boot.

/** Milliseconds since the request for the machine. */
export interface BootTimes {
  readonly firstLine: number;
  readonly login: number;
}

/** The line above the login prompt. Source: Debian's /etc/issue. */
export const LOGIN = /^Debian GNU\/Linux 12 \S+ ttyS0/;
