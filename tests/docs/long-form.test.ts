// SPDX-License-Identifier: Apache-2.0
// tests/README.md's table lists each file of the long form once, and no others.
import { expect, test } from "vitest";
import { listFiles, readText } from "./documents.ts";

const LONG = ".long.test.ts";

test("tests/README.md lists every file of the long form", () => {
  const rows = readText("tests/README.md").matchAll(/^\|[^|]*\| `([^`]+\.long\.test\.ts)` +\|/gm);
  const listed = [...rows].map(([, path = ""]) => path);
  const files = listFiles(`*${LONG}`);
  // A row names the shortest unique end of a path.
  const namedBy = (path: string): readonly string[] =>
    listed.filter((end) => path.endsWith(`/${end}`) || path === end);
  expect(files.filter((path) => namedBy(path).length !== 1)).toEqual([]);
  expect(listed).toHaveLength(files.length);
});
