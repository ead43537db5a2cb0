// SPDX-License-Identifier: Apache-2.0
// What do clients get of warnings?
import { expect, test } from "vitest";
import { warningValues } from "./warnings.ts";

const LONG = "x".repeat(3000);

test.each([
  { name: "plain", given: ["careful"], want: ['299 - "careful"'] },
  { name: "quotes and backslashes", given: ['a "b" \\c'], want: ['299 - "a \\"b\\" \\\\c"'] },
  { name: "a duplicate", given: ["a", "b", "a"], want: ['299 - "a"', '299 - "b"'] },
  { name: "empty, or with a line break", given: ["", "a\nb", "c"], want: ['299 - "c"'] },
  { name: "non-ASCII text as UTF-8 bytes", given: ["ü"], want: ['299 - "\u00c3\u00bc"'] },
  { name: "a single long warning", given: [LONG], want: [`299 - "${LONG}"`] },
  {
    name: "more than the size limit",
    given: [LONG, `${LONG}y`, "short"],
    want: [`299 - "${"x".repeat(256)}"`, `299 - "${"x".repeat(256)}"`, '299 - "short"'],
  },
])("warnings: $name", ({ given, want }) => {
  expect(warningValues(given)).toEqual(want);
});

test("writes at most 4096 characters, and completes a warning that begins below the limit", () => {
  const many = Array.from({ length: 40 }, (_, index) => `${String(index)}${"x".repeat(300)}`);
  expect(warningValues(many)).toHaveLength(16);
});
