// SPDX-License-Identifier: Apache-2.0
// A tree with only the files of the release's commit, so that files of earlier builds cannot get into the release.
import { globSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { emptyDirectory, run, type Release } from "./release.ts";

/** Folders of libraries, which package-lock.json fixes. The tree shares their files by hard links. */
const LIBRARIES = ["node_modules", "hack/tools/node_modules", "packages/{*/,}*/node_modules"];

/** Returns the tree. Its `.cache` survives, for downloaded packages. */
export function checkOut(repository: string, { work, commit }: Release): string {
  const tree = emptyDirectory(join(work, "source"));
  const script = 'git -C "$1" archive --format=tar "$2" | tar -C "$3" --no-same-permissions -xf -';
  run(["sh", "-euc", script, "sh", repository, commit, tree]);
  for (const path of LIBRARIES.flatMap((pattern) => globSync(pattern, { cwd: repository }))) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    run(["cp", "-al", join(repository, path), join(tree, path)]);
  }
  mkdirSync(join(work, "cache"), { recursive: true });
  // hack/build-native compares times, and the tree's files have the time of the commit, which may be before the last build.
  for (const path of globSync("cache/cross/*/packages", { cwd: work })) {
    rmSync(join(work, path), { recursive: true });
  }
  symlinkSync(join(work, "cache"), join(tree, ".cache"));
  return tree;
}
