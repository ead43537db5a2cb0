// SPDX-License-Identifier: Apache-2.0
// The unit tests of one package, with every package read from beside it: Stryker works on a copy of the tree.
import { globSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { defineConfig } from "vitest/config";

const source = ["@patchbay/source"];
const name = process.env["MUTATED_PACKAGE"] ?? "";
const doors = globSync(join(import.meta.dirname, "../../packages/*/*/src/index.ts"));

export default defineConfig({
  resolve: {
    conditions: source,
    alias: doors.map((door) => ({
      find: new RegExp(`^@patchbay/${basename(dirname(dirname(door)))}$`),
      replacement: door,
    })),
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
