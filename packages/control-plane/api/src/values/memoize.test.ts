// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findByName, firstByKey, memoize, memoizeAt } from "./memoize.ts";

test("computes once for each object and path, and again for an equal object", () => {
  const requested: string[] = [];
  const lengthAt = memoizeAt((about: { readonly text: string }, at) => {
    requested.push(`${about.text} ${at}`);
    return about.text.length;
  });
  const one = { text: "one" };
  expect([lengthAt(one, "a"), lengthAt(one, "a"), lengthAt(one, "b")]).toEqual([3, 3, 3]);
  expect(lengthAt({ text: "one" }, "a")).toBe(3);
  expect(requested).toEqual(["one a", "one b", "one a"]);
});

test("also caches false", () => {
  let requested = 0;
  const isEmpty = memoize((about: { readonly text: string }) => {
    requested += 1;
    return about.text === "";
  });
  const one = { text: "one" };
  expect([isEmpty(one), isEmpty(one), requested]).toEqual([false, false, 1]);
});

describe.each([3, 100])("in a list of %d entries", (count) => {
  const entries = Array.from({ length: count }, (_entry, index) => ({
    name: `n${String(index)}`,
    index,
  }));

  test("finds the first entry with a name", () => {
    const list = [...entries, { name: "n1", index: -1 }];
    expect(findByName(list, "n1")).toBe(entries[1]);
    expect(findByName(list, "n1")).toBe(entries[1]);
    expect(findByName(list, "none")).toBeUndefined();
    expect(findByName<{ name: string }>(undefined, "n1")).toBeUndefined();
  });

  test("maps each key to its first entry", () => {
    const first = firstByKey(entries, ({ index }) => index % 2);
    expect([...first]).toEqual([
      [0, entries[0]],
      [1, entries[1]],
    ]);
  });
});
