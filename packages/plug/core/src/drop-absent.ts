// SPDX-License-Identifier: Apache-2.0
// What is left of an object whose members may be undefined, for types that know no undefined members.

type Present<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Without the members that are undefined. */
export function dropAbsent<T extends object>(fields: T): Present<T> {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  // What is left of T is what is not undefined.
  return Object.fromEntries(present) as Present<T>;
}
