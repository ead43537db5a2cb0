// SPDX-License-Identifier: Apache-2.0
// Files that releases recorded, below tests/fixtures/versions.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");
export const VERSIONS = join(ROOT, "tests/fixtures/versions");

function toNumbers(version: string): readonly number[] {
  return version.replace(/^v/, "").split(".").map(Number);
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

/** The version before the next release. */
export function lastVersion(): string {
  const last = listVersions().at(-1);
  if (last === undefined) throw new Error(`no version is recorded in ${VERSIONS}`);
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
