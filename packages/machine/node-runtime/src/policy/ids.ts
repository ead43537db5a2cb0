// SPDX-License-Identifier: Apache-2.0
// Which numbers are users and groups?

/** Largest id of a user or group. Source: Linux, ids beyond are taken for -1 somewhere. */
export const ID_MAX = 2 ** 31 - 1;

/** Whether it is the number of a user who is not root; runtimes look for a user of that name where it is too large. */
export function isUnprivilegedUser(user: number): boolean {
  return Number.isInteger(user) && user >= 1 && user <= ID_MAX;
}
