// SPDX-License-Identifier: Apache-2.0
// What was found out about an object need not be found out again for as long as it is there: objects do not change.
/** The function, asked once for each object; `find` depends on nothing else. */
export function remembered<About extends object, Found>(
  find: (about: About) => Found,
): (about: About) => Found {
  const found = new WeakMap<About, Found>();
  return (about) => {
    const known = found.get(about);
    if (known !== undefined) return known;
    const answer = find(about);
    found.set(about, answer);
    return answer;
  };
}

/** The same for an object at a place of another; of places there are few, and they are kept. */
export function rememberedAt<About extends object, Found>(
  find: (about: About, at: string) => Found,
): (about: About, at: string) => Found {
  const places = new Map<string, (about: About) => Found>();
  return (about, at) => {
    const findThere = places.get(at) ?? remembered((each: About) => find(each, at));
    places.set(at, findThere);
    return findThere(about);
  };
}
