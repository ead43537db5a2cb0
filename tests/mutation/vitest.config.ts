// SPDX-License-Identifier: Apache-2.0
// The unit tests of one package, with every package read from beside it: Stryker works on a copy of the tree.
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const source = ["@patchbay/source"];
const name = process.env["MUTATED_PACKAGE"] ?? "";
const packages = join(import.meta.dirname, "../../packages");

export default defineConfig({
  resolve: {
    conditions: source,
    alias: [{ find: /^@patchbay\/([a-z-]+)$/, replacement: `${packages}/$1/src/index.ts` }],
  },
  ssr: { resolve: { conditions: source, externalConditions: source } },
  test: {
    include: [`packages/${name}/src/**/*.test.ts`],
    isolate: false,
    // On a machine that does much else a slow test is no failed one; Stryker has a deadline of its own.
    testTimeout: 60_000,
  },
});
