import { join } from "node:path";
import { defineConfig } from "vitest/config";

const source = ["@patchbay/source"];
/** What Node.js compiles: modules of ours that are started as processes by themselves are started from sources. */
const COMPILED = join(import.meta.dirname, ".cache/compiled");
/** Room for short-lived objects: with the default, to collect them took a seventh of the unit tests' processor time. */
const ROOMY = ["--max-semi-space-size=64"];
/** Builds the programs that tests start. */
const PROGRAMS = "tests/support/src/programs/executables.ts";
/** A busy machine is no failure: what comes in the end has come. */
const expectation = { poll: { timeout: 60_000 } };
/** Fixes the seed of random tests; costs a millisecond for each file. */
const FIXED_SEED = "tests/support/src/random/fixed-seed.ts";
const shared = {
  resolve: { conditions: source },
  ssr: { resolve: { conditions: source, externalConditions: source } },
  // Where a suite's setup runs; what only tests use is not built.
  environments: { __vitest__: { resolve: { externalConditions: source } } },
};

/** Folders of stories that boot VMs of their own, on a second machine beside the first. */
const BOOTS = "disks|hooks|pcie|vhost-user";

export default defineConfig({
  test: {
    projects: [
      {
        ...shared,
        test: {
          expect: expectation,
          name: "unit",
          setupFiles: [FIXED_SEED],
          include: [
            "packages/**/src/**/*.test.ts",
            "tests/support/**/*.test.ts",
            "tests/docs/*.test.ts",
            "tests/faults/*.test.ts",
            "hack/**/*.test.ts",
          ],
          // What many files import is loaded once in each of two processes: two thirds of all the time. Threads of one
          // process would share its children: a socket that one closes stays open in what the other has just forked.
          isolate: false,
          maxWorkers: 2,
          execArgv: ROOMY,
          env: { NODE_COMPILE_CACHE: COMPILED },
          // Ends what hangs. The longest takes 2 s on an idle machine, and was seen to take 20 at a load of 10.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "contract",
          setupFiles: [FIXED_SEED],
          include: ["tests/contract/**/*.test.ts"],
          globalSetup: [PROGRAMS],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // Names, bridges and ports are of each file. Half of them wait for guests, half of them compute.
          maxWorkers: 2,
          isolate: false,
          execArgv: ROOMY,
          env: { NODE_COMPILE_CACHE: COMPILED },
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "attacks",
          include: ["tests/attacks/**/*.test.ts"],
          globalSetup: [PROGRAMS],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers: 2,
          isolate: false,
          execArgv: ROOMY,
          env: { NODE_COMPILE_CACHE: COMPILED },
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "e2e",
          // Not by `exclude`: a project's own would replace that of the command line, by which hack/test leaves files out.
          include: [`tests/e2e/!(${BOOTS})/*.test.ts`],
          globalSetup: ["tests/e2e/setup.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
          isolate: false,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "boots",
          include: [`tests/e2e/(${BOOTS})/*.test.ts`],
          globalSetup: ["tests/e2e/boots.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
          isolate: false,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "installed",
          include: ["tests/installed/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "cluster",
          include: ["tests/cluster/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 600_000,
          maxWorkers: 1,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "browser",
          include: ["tests/browser/**/*.test.ts"],
          globalSetup: ["tests/browser/setup.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          // A guest boots while the others look at what is made up.
          maxWorkers: 2,
          isolate: false,
        },
      },
      {
        ...shared,
        test: {
          expect: expectation,
          name: "strict",
          include: ["tests/strict/**/*.test.ts"],
          globalSetup: ["tests/strict/setup.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 1,
          isolate: false,
        },
      },
    ],
  },
});
