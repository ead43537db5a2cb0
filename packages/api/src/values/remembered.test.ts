// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { remembered } from "./remembered.ts";

test("the same object is looked at once for each place, an equal one again", () => {
  const asked: string[] = [];
  const lengthAt = remembered((about: { readonly text: string }, at) => {
    asked.push(`${about.text} ${at}`);
    return about.text.length;
  });
  const one = { text: "one" };
  expect([lengthAt(one, "a"), lengthAt(one, "a"), lengthAt(one, "b")]).toEqual([3, 3, 3]);
  expect(lengthAt({ text: "one" }, "a")).toBe(3);
  expect(asked).toEqual(["one a", "one b", "one a"]);
});
