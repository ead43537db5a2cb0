// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { printTime, toMs } from "./time.ts";

test.each([
  { name: "a time", text: "1970-01-01T00:00:01.500Z", want: 1500 },
  { name: "a time in another time zone", text: "1970-01-01T01:00:00+01:00", want: 0 },
  { name: "invalid text", text: "yesterday", want: undefined },
  { name: "a missing text", text: undefined, want: undefined },
])("reads $name", ({ text, want }) => {
  expect(toMs(text)).toBe(want);
});

test("prints a time with milliseconds, in UTC", () => {
  expect(printTime(1500)).toBe("1970-01-01T00:00:01.500Z");
});
