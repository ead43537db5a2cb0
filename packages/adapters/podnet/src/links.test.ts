// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseList } from "./links.ts";

test.each(["", "\n"])("no output, %j, is an empty list", (text) => {
  expect(parseList(text)).toEqual([]);
});

test("what is no object is left out", () => {
  expect(parseList('[null, 1, {"ifname": "a"}]')).toEqual([{ ifname: "a" }]);
});

test("output that is no list is an error", () => {
  expect(() => parseList("Usage: ip ...")).toThrow("not a JSON list");
});
