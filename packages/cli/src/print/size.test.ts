// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { printSize } from "./size.ts";

test.each([
  [undefined, ""],
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.0 kB"],
  [999_499, "999 kB"],
  [999_600, "1.0 MB"],
  [79_892_480, "80 MB"],
  [2 ** 60, "1152922 TB"],
])("%j bytes are %j", (bytes, want) => {
  expect(printSize(bytes)).toBe(want);
});
