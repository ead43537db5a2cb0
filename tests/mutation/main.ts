// SPDX-License-Identifier: Apache-2.0
// Mutation tests: runs Stryker on each package, or on the named ones (of one also only on the named files), and prints
// a table of the scores. `--part 2/8` takes the second of every eight files, in the order of their names: a sample of a
// large package.
import { globSync } from "node:fs";
import { parseArgs } from "node:util";
import type { PartialStrykerOptions } from "@stryker-mutator/api/core";
import { Stryker } from "@stryker-mutator/core";

/** Required mutation score, percent. */
const WANTED: Readonly<Record<string, number>> = {
  api: 90,
  domain: 90,
  core: 90,
  base: 85,
  podnet: 90,
  cni: 90,
  kube: 85,
  "virt-api": 85,
  "virt-controller": 85,
  "virt-handler": 85,
  "net-agent": 85,
  apiserver: 85,
  "node-runtime": 85,
  containerd: 85,
  os: 85,
  cri: 85,
  libvirt: 85,
  "service-net": 85,
  supervisor: 85,
};

/**
 * Files that only connect processes, sockets and loops, as compose.ts does; the suite that runs them is beside each.
 */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  // tests/contract/node-runtime and tests/e2e
  "node-runtime": ["control", "volumes"].map((name) => `compose/${name}.ts`),
  // tests/contract/libvirt/child.test.ts: both load the addon.
  libvirt: ["child.ts", "native.ts"],
  os: [
    // Every contract test of the package loads the addon.
    "native.ts",
    // children/child.test.ts runs it as a process of its own.
    "children/child-entry.ts",
    // tests/contract/podnet/netlink.test.ts and link-watch.test.ts, in namespaces of their own
    "links.ts",
    // launchers/launcher-watch.test.ts and tests/attacks/launcher/21-renames.long.test.ts; watch-events.ts decides.
    "launchers/launcher-watch.ts",
    // tests/contract/os/vhost-sockets.test.ts and vhost-directories.test.ts, which change owners; vhost-rules.ts decides.
    "launchers/vhost-directories.ts",
    "launchers/vhost-sockets.ts",
  ],
  supervisor: [
    // Commands and processes that only connect; tests/contract/standalone and tests/e2e run them.
    "api-server.ts",
    "down.ts",
    "images/images.ts",
    "images/with-containerd.ts",
    "index.ts",
    "supervisor/supervisor.ts",
    "up.ts",
  ],
};

/** Throws for a package or a left-out file that does not exist: it would count as fully tested. */
function checkPaths(): void {
  const patterns = [
    ...Object.keys(WANTED).map((name) => `packages/*/${name}/src/*.ts`),
    ...Object.entries(LEFT_OUT).flatMap(([name, paths]) =>
      paths.map((path) => `packages/*/${name}/src/${path}`),
    ),
  ];
  const missing = patterns.filter((pattern) => globSync(pattern).length === 0);
  if (missing.length > 0) throw new Error(`no such files: ${missing.join(", ")}`);
}

interface Score {
  readonly name: string;
  readonly noticed: number;
  readonly unnoticed: number;
}

/** Stryker's configuration for a package or some of its files; `.cache/mutation` has earlier results. */
function optionsOf(name: string, files: readonly string[]): PartialStrykerOptions {
  return {
    testRunner: "vitest",
    plugins: ["@stryker-mutator/vitest-runner"],
    // Each mutant runs only the tests that reach it, without following imports again. Worker threads cannot set their
    // umask, as the start of a detached process does.
    vitest: { configFile: "tests/mutation/vitest.config.ts", related: false, pool: "forks" },
    mutate: [
      ...(files.length === 0 ? [`packages/*/${name}/src/**/*.ts`] : files),
      // A program's entry, flags and composition run only as a whole, in the end-to-end tests.
      ...["*.test.ts", "testing.ts", "testing/**", "main.ts", "config.ts", "compose.ts"].map(
        (of) => `!**/${of}`,
      ),
      ...(LEFT_OUT[name] ?? []).map((of) => `!packages/*/${name}/src/${of}`),
    ],
    // Texts are for human review, and names that machines use also appear elsewhere.
    mutator: { excludedMutations: ["StringLiteral"] },
    // A mutant evaluated once at import would need all tests in a separate process.
    ignoreStatic: true,
    concurrency: 1,
    timeoutMS: 10_000,
    incremental: true,
    incrementalFile: `.cache/mutation/${name}.json`,
    tempDirName: `.cache/stryker-${name}`,
    reporters: ["clear-text", "progress-append-only"],
    clearTextReporter: { logTests: false, reportTests: false, allowColor: false },
    // The tests of os lock files, watch links and end processes with the addon.
    ignorePatterns: ["/.cache", "dist", "build", "!packages/adapters/os/build/os.node"],
  };
}

async function mutate(name: string, files: readonly string[]): Promise<Score> {
  // Read by vitest.config.ts.
  process.env["MUTATED_PACKAGE"] = name;
  const changes = await new Stryker(optionsOf(name, files)).runMutationTest();
  const count = (...statuses: readonly string[]): number =>
    changes.filter(({ status }) => statuses.includes(status)).length;
  return {
    name,
    noticed: count("Killed", "Timeout"),
    unnoticed: count("Survived", "NoCoverage"),
  };
}

function percentOf({ noticed, unnoticed }: Score): number {
  return noticed + unnoticed === 0 ? 100 : (100 * noticed) / (noticed + unnoticed);
}

/** The files of one part of a package, such as `2/8`: every eighth file, from the second on. */
function filesOfPart(name: string, part: string): readonly string[] {
  const [which = NaN, parts = NaN] = part.split("/").map(Number);
  if (!(which >= 1 && which <= parts)) throw new Error(`--part ${part}: wanted a part such as 2/8`);
  return globSync(`packages/*/${name}/src/**/*.ts`)
    .filter((file) => !file.endsWith(".test.ts"))
    .toSorted()
    .filter((_, index) => index % parts === which - 1);
}

const {
  values: { part },
  positionals,
} = parseArgs({ allowPositionals: true, options: { part: { type: "string" } } });
const requested = positionals.filter((word) => !word.includes("/"));
const files = positionals.filter((word) => word.includes("/"));
const unknown = requested.filter((name) => WANTED[name] === undefined);
if (unknown.length > 0) {
  throw new Error(`${unknown.join(", ")}: not one of ${Object.keys(WANTED).join(", ")}`);
}
checkPaths();
const scores: Score[] = [];
for (const name of requested.length === 0 ? Object.keys(WANTED) : requested) {
  scores.push(await mutate(name, part === undefined ? files : filesOfPart(name, part)));
}

const rows = scores.map((score) => {
  const cells = [
    score.name.padEnd(16),
    String(score.noticed + score.unnoticed).padStart(7),
    String(score.unnoticed).padStart(9),
    percentOf(score).toFixed(1).padStart(8),
    String(WANTED[score.name]).padStart(8),
  ];
  return `| ${cells.join(" | ")} |`;
});
const head = ["package         ", "changes", "unnoticed", "score, %", "wanted"];
process.stdout.write(
  [
    `\n| ${head.join(" | ")}   |`,
    "| ---------------- | ------: | --------: | -------: | -------: |",
    ...rows,
    "",
  ].join("\n"),
);
const isEnough = (score: Score): boolean => percentOf(score) >= (WANTED[score.name] ?? 100);
process.exitCode = scores.every(isEnough) ? 0 : 1;
