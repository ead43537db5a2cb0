// SPDX-License-Identifier: Apache-2.0
// What does the kernel mean by an error's number?
import { getSystemErrorMap } from "node:util";

/** A number of errno(3) in words and by its name, as in `operation not permitted (EPERM)`. */
export function sayErrno(errno: number): string {
  const [name, words] = getSystemErrorMap().get(-errno) ?? [];
  return name === undefined || words === undefined
    ? `error ${String(errno)}`
    : `${words} (${name})`;
}
