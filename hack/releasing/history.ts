// SPDX-License-Identifier: Apache-2.0
// Reads the commits to which the rule for CHANGELOG.md applies.
import { execFileSync } from "node:child_process";
import type { Commit } from "./changelog.ts";

const RECORD = "\x1e";
const FIELD = "\x1f";
const FORMAT = [
  "%H",
  "%s",
  "%(trailers:key=Changelog,valueonly,separator=%x2C)",
  "%(trailers:key=Changelog-for,valueonly,separator=%x2C)",
].join("%x1f");

export function git(root: string, ...args: readonly string[]): string {
  return execFileSync("git", [...args], { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });
}

function splitList(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}

export function parseLog(log: string): readonly Commit[] {
  return log
    .split(RECORD)
    .slice(1)
    .map((record) => {
      const [head = "", ...paths] = record.split("\n");
      const [hash = "", subject = "", changelog = "", changelogFor = ""] = head.split(FIELD);
      return {
        hash,
        subject,
        paths: paths.filter((path) => path !== ""),
        changelog: splitList(changelog),
        changelogFor: splitList(changelogFor),
      };
    });
}

/**
 * Reads the commits after the last release. The rule starts with the first release: a history without a tag of a release, such
 * as a shallow clone, has no commits to check.
 */
export function readCommits(root: string): readonly Commit[] {
  const tags = git(root, "tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "v*");
  const [start = ""] = tags.split("\n");
  if (start === "") return [];
  const format = `--format=%x1e${FORMAT}`;
  return parseLog(git(root, "log", "--no-merges", "--name-only", format, `${start}..HEAD`));
}
