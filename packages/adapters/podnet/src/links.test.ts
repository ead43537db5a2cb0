// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseList } from "./links.ts";

test.each(["", "\n"])("no output, %j, is an empty list", (text) => {
  expect(parseList(text)).toEqual([]);
});

test("omits entries that are not objects", () => {
  expect(parseList('[null, 1, {"ifname": "a"}]')).toEqual([{ ifname: "a" }]);
});

test("rejects output that is not a list", () => {
  expect(() => parseList("Usage: ip ...")).toThrow("not a JSON list");
});
