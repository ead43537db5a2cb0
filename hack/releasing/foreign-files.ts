// SPDX-License-Identifier: Apache-2.0
// Where the Node.js and the native code of an architecture are.
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { read, ROOT, run, type Architecture } from "./release.ts";

export const NODE = "node_modules/.bin/node";

/**
 * Returns the folder that has `node_modules/.bin/node` and the native code of the packages at the same paths as this
 * repository: the repository itself, or the output of hack/cross.
 */
export function findForeignFiles(architecture: Architecture): string {
  if (read(["dpkg", "--print-architecture"]).trim() === architecture) {
    run([join(ROOT, "hack/build-native")]);
    return ROOT;
  }
  run([join(ROOT, "hack/cross"), architecture]);
  return join(ROOT, ".cache/cross", architecture);
}

/** Returns the folder of the npm package that contains Node.js. */
export function findNodePackage(foreign: string): string {
  return dirname(dirname(realpathSync(join(foreign, NODE))));
}
