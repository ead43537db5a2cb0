// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { memoize, memoizeAt } from "./memoize.ts";

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
