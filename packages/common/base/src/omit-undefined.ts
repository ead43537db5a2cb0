// SPDX-License-Identifier: Apache-2.0

type Present<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Returns a copy without undefined members, for types with `exactOptionalPropertyTypes`. */
export function omitUndefined<T extends object>(fields: T): Present<T> {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as Present<T>;
}
