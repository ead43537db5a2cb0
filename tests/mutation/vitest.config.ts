// SPDX-License-Identifier: Apache-2.0
// One package's unit tests, with the other packages beside it: Stryker works on a copy of the tree.
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
    // A slow test on a busy machine has not failed; Stryker has its own timeout.
    testTimeout: 60_000,
  },
});
