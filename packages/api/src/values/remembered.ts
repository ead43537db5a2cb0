// SPDX-License-Identifier: Apache-2.0
// What was found out about an object need not be found out again for as long as it is there: objects do not change.

/** The function, asked once for each object and place; `find` depends on nothing else. */
export function remembered<About extends object, Found>(
  find: (about: About, at: string) => Found,
): (about: About, at: string) => Found {
  const found = new WeakMap<About, Map<string, Found>>();
  return (about, at) => {
    const places = found.get(about) ?? new Map<string, Found>();
    const known = places.get(at);
    if (known !== undefined) return known;
    const answer = find(about, at);
    found.set(about, places.set(at, answer));
    return answer;
  };
}
