// SPDX-License-Identifier: Apache-2.0
// Where the Node.js and the native code of an architecture are.
import { join } from "node:path";
import { read, ROOT, run, type Architecture } from "./release.ts";

/**
 * Returns the folder that has `node_modules/.bin/node` and the native code of the packages at the same paths as this
 * repository: the repository itself, or the output of hack/cross.
 */
export function findForeignFiles(architecture: Architecture): string {
  run([join(ROOT, "hack/build-native")]);
  if (read(["dpkg", "--print-architecture"]).trim() === architecture) return ROOT;
  run([join(ROOT, "hack/cross"), architecture]);
  return join(ROOT, ".cache/cross", architecture);
}
