// SPDX-License-Identifier: Apache-2.0
// Caches of derived values, for objects that do not change.
/** Caches the result of `compute` for each object. `compute` must be a pure function of the object. */
export function memoize<Subject extends object, Result>(
  compute: (subject: Subject) => Result,
): (subject: Subject) => Result {
  const results = new WeakMap<Subject, Result>();
  return (subject) => {
    const cached = results.get(subject);
    if (cached !== undefined) return cached;
    const result = compute(subject);
    results.set(subject, result);
    return result;
  };
}

/** Caches the result of `compute` for each object and path. Paths are never evicted, so callers must use few paths. */
export function memoizeAt<Subject extends object, Result>(
  compute: (subject: Subject, path: string) => Result,
): (subject: Subject, path: string) => Result {
  const functionsByPath = new Map<string, (subject: Subject) => Result>();
  return (subject, path) => {
    const computeCached =
      functionsByPath.get(path) ?? memoize((object: Subject) => compute(object, path));
    functionsByPath.set(path, computeCached);
    return computeCached(subject);
  };
}

const SCANNED_LENGTH_MAX = 8;

interface Named {
  readonly name?: string;
}

const indexByName = memoize((list: readonly Named[]) => firstByKey(list, ({ name }) => name));

/** Returns the first entry with this name. Callers must not change the list afterwards. */
export function findByName<T extends Named>(
  list: readonly T[] | undefined,
  name: string,
): T | undefined {
  if (list === undefined || list.length <= SCANNED_LENGTH_MAX)
    return list?.find((entry) => entry.name === name);
  // The cast is safe, because the index contains only entries of the list.
  return indexByName(list).get(name) as T | undefined;
}

export function firstByKey<T, Key>(
  entries: readonly T[],
  keyOf: (entry: T) => Key,
): ReadonlyMap<Key, T> {
  const firstEntries = new Map<Key, T>();
  for (const entry of entries) {
    const key = keyOf(entry);
    if (!firstEntries.has(key)) firstEntries.set(key, entry);
  }
  return firstEntries;
}
