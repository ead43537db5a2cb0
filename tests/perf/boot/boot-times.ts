// SPDX-License-Identifier: Apache-2.0
// What is measured of a boot.

/** Milliseconds since the machine was asked for. */
export interface BootTimes {
  readonly firstLine: number;
  readonly login: number;
}

/** The line above the place where a person can log in. Source: Debian's /etc/issue. */
export const LOGIN = /^Debian GNU\/Linux 12 \S+ ttyS0/;
