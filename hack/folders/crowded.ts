// SPDX-License-Identifier: Apache-2.0
// Which folders hold more files than a reader takes in at a glance? Pure.

/** Files in one folder, floors below it not counted. */
export const FILES_MAX = 15;

/** A folder with more files than that. */
export interface CrowdedFolder {
  readonly folder: string;
  readonly files: number;
}

/** In a package a test stands beside its code and does not count; in tests/ and hack/ every file does. */
function isCounted(path: string): boolean {
  const isSource = /^packages\/([^/]+\/)?[^/]+\/src\//.test(path);
  return isSource ? !path.endsWith(".test.ts") : /^(hack|tests)\//.test(path);
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
