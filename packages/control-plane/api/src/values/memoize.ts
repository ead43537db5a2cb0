// SPDX-License-Identifier: Apache-2.0
// Caches of derived values, for objects that do not change.
/** Caches the result of `find` for each object. `find` must depend on nothing else. */
export function memoize<Subject extends object, Result>(
  find: (subject: Subject) => Result,
): (subject: Subject) => Result {
  const results = new WeakMap<Subject, Result>();
  return (subject) => {
    const cached = results.get(subject);
    if (cached !== undefined) return cached;
    const result = find(subject);
    results.set(subject, result);
    return result;
  };
}

/** Caches the result of `find` for each object and path. Paths are few and are never evicted. */
export function memoizeAt<Subject extends object, Result>(
  find: (subject: Subject, path: string) => Result,
): (subject: Subject, path: string) => Result {
  const findByPath = new Map<string, (subject: Subject) => Result>();
  return (subject, path) => {
    const findCached = findByPath.get(path) ?? memoize((each: Subject) => find(each, path));
    findByPath.set(path, findCached);
    return findCached(subject);
  };
}
