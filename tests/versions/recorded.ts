// SPDX-License-Identifier: Apache-2.0
// Files that releases recorded, below tests/fixtures/versions.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { VERSION } from "@patchbay/base/version";

export const ROOT = join(import.meta.dirname, "../..");
export const VERSIONS = join(ROOT, "tests/fixtures/versions");

function toNumbers(version: string): readonly number[] {
  const [release = ""] = version.replace(/^v/, "").split("-");
  return release.split(".").map(Number);
}

function compareVersions(left: string, right: string): number {
  const [a, b] = [toNumbers(left), toNumbers(right)];
  const at = [0, 1, 2].find((index) => (a[index] ?? 0) !== (b[index] ?? 0)) ?? 0;
  return (a[at] ?? 0) - (b[at] ?? 0);
}

/** The recorded versions, oldest first. */
export function listVersions(): readonly string[] {
  return readdirSync(VERSIONS)
    .filter((name) => /^v\d+(\.\d+)*$/.test(name))
    .toSorted(compareVersions);
}

/** Returns the newest of the versions that are older than the version. */
export function findBefore(versions: readonly string[], version: string): string | undefined {
  return versions.findLast((each) => compareVersions(each, version) < 0);
}

/** The newest recorded version before this one. */
export function lastVersion(): string {
  const last = findBefore(listVersions(), VERSION);
  if (last === undefined) throw new Error(`${VERSIONS} has no version before ${VERSION}`);
  return last;
}

/** Texts of the files below a folder of a version, by path in that folder. */
export function readFolder(version: string, folder: string): ReadonlyMap<string, string> {
  const top = join(VERSIONS, version, folder);
  const paths = readdirSync(top, { recursive: true, encoding: "utf8" })
    .map((path) => join(top, path))
    .filter((path) => statSync(path).isFile());
  return new Map(paths.toSorted().map((path) => [relative(top, path), readFileSync(path, "utf8")]));
}

export function readRecorded(version: string, path: string): string {
  return readFileSync(join(VERSIONS, version, path), "utf8");
}
