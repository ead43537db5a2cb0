import { join } from "node:path";
import { defineConfig } from "vitest/config";

const source = ["@patchbay/source"];
/** Compile cache of Node.js for modules that tests start as processes, because these run from the sources. */
const COMPILED = join(import.meta.dirname, ".cache/compiled");
/** Larger space for short-lived objects. With the default, collecting them took a seventh of the unit tests' processor time. */
const ROOMY = ["--max-semi-space-size=64"];
/** Builds the programs that tests start. */
const PROGRAMS = "tests/support/src/programs/executables.ts";
/** Long timeout of polling expectations, so that a test does not fail only because the machine is busy. */
const expectation = { poll: { timeout: 60_000 } };
/** Fixes the seed of random tests. Takes a millisecond per file. */
const FIXED_SEED = "tests/support/src/random/fixed-seed.ts";
const shared = {
  resolve: { conditions: source },
  ssr: { resolve: { conditions: source, externalConditions: source } },
  // Environment in which the global setup of a suite runs. Packages that only tests use have no compiled files.
  environments: { __vitest__: { resolve: { externalConditions: source } } },
};

/** Folders of e2e tests that boot their own VMs. They run on a second machine, in parallel with the others. */
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
            "tests/growth/*.test.ts",
            "tests/versions/*.test.ts",
            "hack/**/*.test.ts",
          ],
          // Modules are loaded once per process instead of once per file, which took two thirds of the time. Processes are used, because
          // threads share children: a child that one thread forks would inherit sockets that another thread closes.
          isolate: false,
          maxWorkers: 2,
          execArgv: ROOMY,
          env: { NODE_COMPILE_CACHE: COMPILED },
          // Ends tests that hang. The longest test takes 2 s on an idle machine, and took 20 s at a load of 10.
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
          // Files can run in parallel, because each uses its own names, bridges and ports. Half of them wait for guests, others compute.
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
          // Uses no `exclude`, because it would replace the `--exclude` with which hack/test omits files.
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
          // Tests with fake data run while a guest boots.
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
