// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { omitUndefined } from "./omit-undefined.ts";

test("omits undefined members, and no other falsy ones", () => {
  const given = { a: undefined, b: 0, c: "", d: false, e: null, f: 1 };
  const kept = omitUndefined(given);
  expect(Object.keys(kept)).toEqual(["b", "c", "d", "e", "f"]);
  expect(kept).toEqual({ b: 0, c: "", d: false, e: null, f: 1 });
});
