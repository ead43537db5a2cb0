// SPDX-License-Identifier: Apache-2.0
// Caches of derived values, for objects that do not change.
/** Calls `find` once per object. `find` must depend on nothing else. */
export function memoize<About extends object, Found>(
  find: (about: About) => Found,
): (about: About) => Found {
  const found = new WeakMap<About, Found>();
  return (about) => {
    const cached = found.get(about);
    if (cached !== undefined) return cached;
    const answer = find(about);
    found.set(about, answer);
    return answer;
  };
}

/** Calls `find` once per object and path. Paths are few and are never evicted. */
export function memoizeAt<About extends object, Found>(
  find: (about: About, at: string) => Found,
): (about: About, at: string) => Found {
  const places = new Map<string, (about: About) => Found>();
  return (about, at) => {
    const findCached = places.get(at) ?? memoize((each: About) => find(each, at));
    places.set(at, findCached);
    return findCached(about);
  };
}
