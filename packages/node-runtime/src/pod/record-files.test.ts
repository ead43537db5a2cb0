// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseIdentity } from "./record-files.ts";

test.each([
  { name: "this boot's process", text: "12 3456 boot\n", want: { pid: 12, startTime: "3456" } },
  { name: "an earlier boot's process", text: "12 3456 other\n", want: undefined },
  { name: "no file", text: undefined, want: undefined },
  { name: "half a line", text: "12", want: undefined },
  { name: "something else", text: "-1 x boot", want: undefined },
])("$name", ({ text, want }) => {
  expect(parseIdentity(text, "boot")).toEqual(want);
});
