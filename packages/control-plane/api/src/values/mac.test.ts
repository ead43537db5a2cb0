// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { normalizeMac, parseMac } from "./mac.ts";

test.each([
  ["DE:AD:00:00:BE:AF", "de:ad:00:00:be:af"],
  ["de-ad-00-00-be-af", "de:ad:00:00:be:af"],
  ["dead.0000.beaf", "de:ad:00:00:be:af"],
  ["DE:AD-00", "de:ad-00"],
])("%s is normalized to %s", (input, want) => {
  expect(normalizeMac(input)).toBe(want);
});

test.each([
  "",
  "de:ad",
  "de:ad:00-00:be:af",
  "deadbeafdead",
  "gg:00:00:00:00:00",
  "dead.beaf",
  "dead:0000:beaf",
  ":",
])("rejects %j", (input) => {
  expect(parseMac(input)).toBeUndefined();
});
