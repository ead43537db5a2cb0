// SPDX-License-Identifier: Apache-2.0
// The unit tests of one package, with every package read from beside it: Stryker works on a copy of the tree.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig } from "vitest/config";

const source = ["@patchbay/source"];
const name = process.env["MUTATED_PACKAGE"] ?? "";

interface Package {
  readonly name: string;
  readonly exports?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Each entry point of a package; without an alias, its link in node_modules leads to the tree that is not changed. */
function listAliases(path: string) {
  const { name: packageName, exports = {} } = JSON.parse(readFileSync(path, "utf8")) as Package; // our own
  return Object.entries(exports).map(([entry, targets]) => ({
    find: new RegExp(`^${packageName}${entry.slice(1)}$`),
    replacement: join(dirname(path), targets["@patchbay/source"] ?? ""),
  }));
}

const packages = globSync(join(import.meta.dirname, "../../packages/*/*/package.json"));

export default defineConfig({
  resolve: {
    conditions: source,
    alias: packages.flatMap(listAliases),
  },
  ssr: { resolve: { conditions: source, externalConditions: source } },
  test: {
    include: [`packages/*/${name}/src/**/*.test.ts`],
    setupFiles: [join(import.meta.dirname, "../support/src/random/fixed-seed.ts")],
    isolate: false,
    // On a machine that does much else a slow test is no failed one; Stryker has a deadline of its own.
    testTimeout: 60_000,
  },
});
