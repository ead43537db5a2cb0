// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { FILES_MAX, findCrowdedFolders } from "./crowded.ts";

function filesIn(folder: string, count: number, ending = ".ts"): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${folder}/file-${String(index)}${ending}`);
}

const full = FILES_MAX;
const over = FILES_MAX + 1;

const ROWS = [
  { name: "a full folder", given: filesIn("packages/a/src", full), want: [] },
  {
    name: "one file too many",
    given: filesIn("packages/a/src", over),
    want: [{ folder: "packages/a/src", files: over }],
  },
  {
    name: "tests beside their code",
    given: [...filesIn("packages/a/src/b", full), ...filesIn("packages/a/src/b", 9, ".test.ts")],
    want: [],
  },
  {
    name: "tests in tests/",
    given: filesIn("tests/e2e", over, ".test.ts"),
    want: [{ folder: "tests/e2e", files: over }],
  },
  {
    name: "floors, each for itself",
    given: [...filesIn("hack/a", full), ...filesIn("hack/a/b", full), ...filesIn("hack", full)],
    want: [],
  },
  {
    name: "pages, and sources of an addon",
    given: [...filesIn("docs/adr", over, ".md"), ...filesIn("packages/a/b/native", over, ".cc")],
    want: [
      { folder: "docs/adr", files: over },
      { folder: "packages/a/b/native", files: over },
    ],
  },
  {
    name: "settings at the root",
    given: Array.from({ length: over }, (_, index) => `file-${String(index)}.json`),
    want: [],
  },
  {
    name: "several, the fullest first",
    given: [...filesIn("tests/a", over), ...filesIn("hack", over + 1)],
    want: [
      { folder: "hack", files: over + 1 },
      { folder: "tests/a", files: over },
    ],
  },
];

describe("findCrowdedFolders", () => {
  test.each(ROWS)("$name", ({ given, want }) => {
    expect(findCrowdedFolders(given)).toEqual(want);
  });
});
