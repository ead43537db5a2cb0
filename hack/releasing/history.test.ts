// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findSilentCommits } from "./changelog.ts";
import { git, readCommits } from "./history.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "history-"));
  git(root, "init", "--quiet", "--initial-branch=main", "origin");
});
afterEach(() => {
  rmSync(root, { recursive: true });
});

const IDENTITY = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"];

/** Commits one file in the repository `origin`. */
function commit(path: string, message: string): void {
  const origin = join(root, "origin");
  mkdirSync(dirname(join(origin, path)), { recursive: true });
  writeFileSync(join(origin, path), message);
  git(origin, "add", "--all");
  git(origin, ...IDENTITY, "commit", "--quiet", "--message", message);
}

function subjectsIn(directory: string): readonly string[] {
  return readCommits(directory).map(({ subject }) => subject);
}

function release(version: string): void {
  git(join(root, "origin"), "tag", `v${version}`);
}

test("reads the commits after the last release, with trailers", () => {
  commit("packages/a.ts", "before");
  release("0.2.0");
  commit("packages/a.ts", "released");
  release("0.10.0");
  commit("packages/a.ts", "silent");
  commit("packages/b.ts", "refactoring\n\nA reason.\n\nChangelog: none\nChangelog-for: abc, def");
  const found = readCommits(join(root, "origin"));
  expect(found).toMatchObject([
    {
      subject: "refactoring",
      paths: ["packages/b.ts"],
      changelog: ["none"],
      changelogFor: ["abc", "def"],
    },
    { subject: "silent", paths: ["packages/a.ts"], changelog: [], changelogFor: [] },
  ]);
  expect(findSilentCommits(found)).toHaveLength(1);
});

test("a history without a release and a shallow clone have no commits to check", () => {
  commit("packages/a.ts", "one");
  expect(subjectsIn(join(root, "origin"))).toEqual([]);
  release("0.2.0");
  for (const name of ["two", "three", "four"]) commit("packages/a.ts", name);
  git(root, "clone", "--quiet", "--depth=2", `file://${root}/origin`, "clone");
  expect(subjectsIn(join(root, "clone"))).toEqual([]);
  expect(subjectsIn(join(root, "origin"))).toEqual(["four", "three", "two"]);
});
