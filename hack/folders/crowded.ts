// SPDX-License-Identifier: Apache-2.0
// Which folders hold more files than a reader takes in at a glance? Pure.

/** Files in one folder, floors below it not counted. */
export const FILES_MAX = 15;

/** A folder with more files than that. */
export interface CrowdedFolder {
  readonly folder: string;
  readonly files: number;
}

/** Everywhere, but for two: in a package a test stands beside its code, and tools look for their settings at the root. */
function isCounted(path: string): boolean {
  const isTestOfPackage = /^packages\/.*\/src\/.*\.test\.ts$/.test(path);
  return path.includes("/") && !isTestOfPackage;
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

/** The crowded ones among the folders of these files, which are named from the repository's root; fullest first. */
export function findCrowdedFolders(paths: readonly string[]): readonly CrowdedFolder[] {
  const counts = new Map<string, number>();
  for (const folder of paths.filter(isCounted).map(folderOf)) {
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, files]) => files > FILES_MAX)
    .map(([folder, files]) => ({ folder, files }))
    .toSorted((left, right) => right.files - left.files);
}
