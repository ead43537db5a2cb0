// SPDX-License-Identifier: Apache-2.0
// Reads the commits to which the rule for CHANGELOG.md applies.
import { execFileSync } from "node:child_process";
import type { Commit } from "./changelog.ts";

/** The file whose addition started the rule. */
const RULE = "hack/releasing/changelog.ts";
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
 * Reads the commits after the last release, or else after the commit that started the rule. In a shallow clone, git reports
 * its oldest commit as the one that added every file, so that this commit is the start.
 */
export function readCommits(root: string): readonly Commit[] {
  const tags = git(root, "tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "v*");
  const added = git(root, "log", "--diff-filter=A", "--format=%H", "--", RULE);
  const start = [tags, added].map((text) => text.split("\n")[0] ?? "").find((name) => name !== "");
  if (start === undefined) return [];
  const format = `--format=%x1e${FORMAT}`;
  return parseLog(git(root, "log", "--no-merges", "--name-only", format, `${start}..HEAD`));
}
