// SPDX-License-Identifier: Apache-2.0
// Runs all checks and suites, or the named ones. Prints duration, processor time and failures of each. Without --long, skips files named
// *.long.test.ts.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { FILE_TIMES, type FileTime } from "./file-times.ts";
import { secondsOfEnded, secondsOfMachine } from "./processor-time.ts";
import { addHookErrors, countReport, quoteEnd, type VitestReport } from "./test-report.ts";

const LONG_FLAG = "--long";
/** Checks the names of suites and runs none. */
const NAMES_FLAG = "--names";
const isLong = process.argv.includes(LONG_FLAG);
const wanted = process.argv.slice(2).filter((word) => word !== LONG_FLAG && word !== NAMES_FLAG);

const root = join(import.meta.dirname, "..");
const env = {
  ...process.env,
  PATH: [join(root, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter),
  // Read by randomized tests and by tests that judge a whole run.
  ...(isLong ? { PATCHBAY_LONG: "1" } : {}),
};

interface Counts {
  readonly passed: number;
  readonly failed: number;
  /** Names of failures, as far as known, with reasons. */
  readonly failures?: readonly string[];
  /** Number of tests whose requirements this machine lacks, and the requirements. */
  readonly notPossible?: { readonly count: number; readonly why: string };
  readonly files?: readonly FileTime[];
  /** Processor time of the suite's processes, without containers and daemons. */
  readonly processorSeconds?: number;
}

interface Suite {
  readonly name: string;
  readonly run: () => Promise<Counts>;
}

function printHeading(name: string): void {
  process.stdout.write(`\n=== ${name}\n`);
}

interface Ended {
  readonly ok: boolean;
  readonly processorSeconds: number;
}

/** Runs a program, in parallel with others. `tell` receives its output by lines. */
async function runProgram(
  argv: readonly string[],
  tell: (text: string) => void,
  more: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const [program = "", ...args] = argv;
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const child = spawn(program, args, { cwd: root, env: { ...env, ...more }, stdio: [...stdio] });
  const readAll = async (stream: Readable): Promise<void> => {
    for await (const line of createInterface(stream)) tell(`${line}\n`);
  };
  const computed = once(child, "exit").then(secondsOfEnded);
  const closed = once(child, "close");
  await Promise.all([readAll(child.stdout), readAll(child.stderr), closed]);
  return { ok: child.exitCode === 0, processorSeconds: await computed };
}

/** Runs a short program. Prints the output when the program has ended. */
function check(name: string, argv: readonly string[]): Suite {
  const run = async (): Promise<Counts> => {
    const said: string[] = [];
    const { ok, processorSeconds } = await runProgram(argv, (text) => said.push(text));
    printHeading(name);
    process.stdout.write(said.join(""));
    if (ok) return { passed: 1, failed: 0, processorSeconds };
    return {
      passed: 0,
      failed: 1,
      failures: [`its output ends with${quoteEnd(said)}`],
      processorSeconds,
    };
  };
  return { name, run };
}

/** Reads a reporter's file. Returns `missing` if vitest ended before it wrote the file. */
function readWritten<T>(path: string, missing: T): T {
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as T) : missing;
}

/** A part of a project's tests that runs as its own suite. */
interface Part {
  readonly name: string;
  /** More arguments for vitest. */
  readonly argv: readonly string[];
  /** A command that runs vitest. */
  readonly runner?: readonly string[];
}

/** Excludes the long form. */
const SHORT: readonly string[] = isLong ? [] : ["--exclude", "**/*.long.test.ts"];

function suite(project: string, part?: Part): Suite {
  const { name, argv: chosen, runner = [] }: Part = part ?? { name: `${project} tests`, argv: [] };
  const file = name.replaceAll(" ", "-");
  return {
    name,
    run: async () => {
      printHeading(name);
      const output = join(root, ".cache", `${file}.json`);
      const times = join(root, ".cache", `${file}.times.json`);
      const reports = [
        "--reporter=default",
        "--reporter=json",
        "--reporter=./hack/file-times.ts",
        `--outputFile.json=${output}`,
      ];
      const vitest = ["vitest", "run", "--project", project, ...chosen, ...SHORT, ...reports];
      const argv = [...runner, ...vitest];
      const said: string[] = [];
      const tell = (text: string): void => {
        said.push(text);
        process.stdout.write(text);
      };
      // Removes files of an earlier run.
      for (const path of [output, times]) rmSync(path, { force: true });
      const { ok, processorSeconds } = await runProgram(argv, tell, { [FILE_TIMES]: times });
      const files = readWritten<readonly FileTime[]>(times, []);
      const report = readWritten<VitestReport>(output, { testResults: [] });
      const hookErrors = new Map(
        files.flatMap(({ file: path, hookError }) =>
          hookError === undefined ? [] : [[join(root, path), hookError]],
        ),
      );
      const whole = addHookErrors(report, hookErrors);
      const counts = { ...countReport(whole, root, said), files, processorSeconds };
      // Vitest exits with an error if tests were not possible.
      if (ok || counts.failed > 0 || counts.notPossible !== undefined) return counts;
      const failures = [`an error outside of its tests; its output ends with${quoteEnd(said)}`];
      return { ...counts, failed: 1, failures };
    },
  };
}

/** Counts a project's tests without running them. `chosen`: more arguments for vitest. */
function countTests(project: string, chosen: readonly string[] = []): number {
  const argv = ["list", "--project", project, ...chosen, "--json"];
  const listed = spawnSync("vitest", argv, { cwd: root, env, encoding: "utf8" });
  // One entry per test, written by vitest.
  return (JSON.parse(listed.stdout) as readonly unknown[]).length;
}

/** Returns the tests on a cluster. Without a cluster, counts them as not possible. */
function clusterSuite(): Suite {
  const whole = suite("cluster");
  if ((process.env["PATCHBAY_KUBECONFIG"] ?? "") !== "") return whole;
  const run = (): Promise<Counts> =>
    Promise.resolve({
      passed: 0,
      failed: 0,
      notPossible: { count: countTests("cluster"), why: "no cluster named" },
    });
  return { ...whole, run };
}

/** Filled by hack/fetch-containerd. */
const CONTAINERD_2 = join(root, ".cache/containerd-2");

/** Runs tests with containerd 2, which clusters run, in addition to the same tests with the machine's containerd. */
function containerd2Suite(project: string, name: string, paths: readonly string[]): Suite {
  const runner = [join(root, "hack/with-containerd"), CONTAINERD_2];
  if (existsSync(join(CONTAINERD_2, "containerd"))) {
    return suite(project, { name, argv: paths, runner });
  }
  const run = (): Promise<Counts> => {
    const notPossible = { count: countTests(project, paths), why: "containerd 2 is missing" };
    return Promise.resolve({ passed: 0, failed: 0, notPossible });
  };
  return { name, run };
}

/** Suites in order, longest first; each starts when a row is free. */
interface Lane {
  /** Number of parallel suites. */
  readonly rows: number;
  readonly suites: readonly Suite[];
}

interface Stage {
  readonly name: string;
  /** Limit on two idle cores, seconds. */
  readonly budget: number;
  /** Run in parallel. */
  readonly lanes: readonly Lane[];
}

/** Run first, because they find the most frequent faults. */
const CHECKS: readonly Suite[] = [
  check("lint", ["npm", "run", "-s", "lint"]),
  check("format", ["npm", "run", "-s", "format:check"]),
  check("types", ["npm", "run", "-s", "types"]),
];

/** Checks that run after the guest suites, because these end before the unit and contract tests. */
const LATE_CHECKS: readonly Suite[] = [
  check("generated files", ["npm", "run", "-s", "verify"]),
  check("changelog", ["npm", "run", "-s", "changelog"]),
  check("boundaries", ["npm", "run", "-s", "boundaries"]),
  check("unused code", ["npm", "run", "-s", "unused"]),
  check("duplicates", ["npm", "run", "-s", "duplicates"]),
];

/** Contract tests that boot guests. */
const GUEST_CONTRACTS = [
  "tests/contract/cni/guest/",
  "tests/contract/launcher/",
  "tests/contract/libvirt/",
  "tests/contract/node-runtime/",
  "tests/contract/standalone/guest-trial.long.test.ts",
];
/** Tests in fresh roots of Debian releases. */
const DEBIAN_ROOTS = "tests/contract/releases/";
const ALL_BUT_GUESTS = [...GUEST_CONTRACTS, DEBIAN_ROOTS].flatMap((path) => [
  "--exclude",
  path.endsWith("/") ? `${path}**` : path,
]);

const GUEST_CONTRACT_SUITE = suite("contract", {
  name: "guest contract tests",
  argv: [...GUEST_CONTRACTS, "--maxWorkers=1"],
});
const CONTRACT_SUITE = suite("contract", { name: "contract tests", argv: ALL_BUT_GUESTS });

/** Tests that measure times under load, which other suites would change. The short form has none of them. */
const TENANTS = "tests/e2e/tenants/";
const E2E_SUITE = suite("e2e", { name: "e2e tests", argv: ["--exclude", `${TENANTS}**`] });
const TENANTS_SUITE = suite("e2e", { name: "tenants", argv: [TENANTS] });

/** Suites of the long form only: roots of Debian, services as pods, a strict API server, and containerd 2. */
const LONG_GUEST_SUITES: readonly Suite[] = isLong
  ? [
      suite("contract", { name: "Debian roots", argv: [DEBIAN_ROOTS] }),
      suite("installed"),
      suite("strict"),
      containerd2Suite("e2e", "migration with containerd 2", ["tests/e2e/migration/"]),
      containerd2Suite("contract", "contract tests with containerd 2", [
        "tests/contract/cri/",
        "tests/contract/net-agent/",
      ]),
    ]
  : [];

/** Limits of all stages by form: seconds of wall clock on two idle cores, and core-seconds. */
const BUDGET = isLong ? { seconds: 3600, coreSeconds: 5200 } : { seconds: 600, coreSeconds: 1300 };

/** Parts of the budget for tests on a named cluster, and for tests that run alone. */
const CLUSTER_SECONDS = 10;
const ALONE_SECONDS = isLong ? 600 : 0;

/**
 * Stages, which run one after the other. Guest tests mostly wait, so checks and suites that compute run in parallel with
 * them. Two suites boot guests, one guest each; only the Debian tests boot two.
 */
const STAGES: readonly Stage[] = [
  {
    name: "guests and checks",
    budget: BUDGET.seconds - CLUSTER_SECONDS - ALONE_SECONDS,
    lanes: [
      {
        rows: 2,
        suites: [
          E2E_SUITE,
          suite("boots"),
          GUEST_CONTRACT_SUITE,
          ...LONG_GUEST_SUITES,
          suite("browser"),
          ...LATE_CHECKS,
        ],
      },
      { rows: 1, suites: [...CHECKS, suite("unit"), suite("attacks"), CONTRACT_SUITE] },
    ],
  },
  ...(isLong
    ? [{ name: "alone", budget: ALONE_SECONDS, lanes: [{ rows: 1, suites: [TENANTS_SUITE] }] }]
    : []),
  { name: "cluster", budget: CLUSTER_SECONDS, lanes: [{ rows: 1, suites: [clusterSuite()] }] },
];

/** Accepts `unit` for `unit tests`. */
function isNamed(name: string, word: string): boolean {
  return name === word || name === `${word} tests`;
}

/** Ends with an error if a requested suite does not exist, because the run would pass without it. */
function checkNames(): void {
  const names = STAGES.flatMap(({ lanes }) => lanes.flatMap(({ suites }) => suites)).map(
    ({ name }) => name,
  );
  const unknown = wanted.filter((word) => !names.some((name) => isNamed(name, word)));
  if (unknown.length > 0) {
    const form = isLong ? "hack/test --long" : "hack/test without --long";
    const missing = unknown.map((name) => JSON.stringify(name)).join(", ");
    process.stderr.write(
      `${form} has no suite ${missing}. It has:\n${names.map((name) => `  ${name}\n`).join("")}`,
    );
    process.exit(2);
  }
  if (process.argv.includes(NAMES_FLAG)) process.exit(0);
}

checkNames();

interface Result {
  readonly suite: Suite;
  readonly counts: Counts;
  readonly seconds: number;
}

async function runSuite(each: Suite): Promise<Result> {
  const started = performance.now();
  const counts = await each.run();
  return { suite: each, counts, seconds: (performance.now() - started) / 1000 };
}

/** Runs the suites of a lane. Returns the results by row. */
function runLane({ rows, suites }: Lane): Promise<readonly (readonly Result[])[]> {
  const left = suites
    .filter(({ name }) => wanted.length === 0 || wanted.some((word) => isNamed(name, word)))
    .values();
  const runRow = async (): Promise<readonly Result[]> => {
    const done: Result[] = [];
    // All rows share the queue of suites.
    for (const each of left) done.push(await runSuite(each));
    return done;
  };
  return Promise.all(Array.from({ length: rows }, runRow));
}

function sumOf<T>(values: readonly T[], count: (value: T) => number): number {
  return values.reduce((total, value) => total + count(value), 0);
}

function printSeconds(seconds: number): string {
  return `${seconds.toFixed(1).padStart(7)} s`;
}

/** Prints a time with its budget, and marks it if it exceeds the budget. */
function printTime(seconds: number, budget: number): string {
  const text = `${printSeconds(seconds)} of ${String(budget).padStart(4)} s`;
  return seconds > budget ? `${text}  over` : text;
}

/** Number of files in the summary. */
const SLOWEST = 10;

const results: Result[] = [];
const times: string[] = [];
const begun = performance.now();
const computedBefore = secondsOfMachine();
for (const stage of STAGES) {
  const started = performance.now();
  const rows = (await Promise.all(stage.lanes.map(runLane))).flat();
  const seconds = (performance.now() - started) / 1000;
  const ends = rows.map((done) => sumOf(done, (each) => each.seconds).toFixed(0));
  results.push(...rows.flat());
  if (rows.flat().length > 0) {
    const ended = `rows ended after ${ends.join(", ")} s`;
    times.push(`${stage.name.padEnd(18)} ${printTime(seconds, stage.budget)}  ${ended}`);
  }
}
const wholeSeconds = (performance.now() - begun) / 1000;
const coreSeconds = secondsOfMachine() - computedBefore;

const lines = results.map(({ suite: { name }, counts, seconds }) => {
  const { passed, failed, processorSeconds = 0 } = counts;
  const times = `${printSeconds(seconds)}, of a processor ${printSeconds(processorSeconds)}`;
  return `${name.padEnd(20)} ${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${times}`;
});
const slowest = results
  .flatMap(({ counts }) => counts.files ?? [])
  .toSorted((left, right) => right.seconds - left.seconds)
  .slice(0, SLOWEST)
  .map(({ file, seconds }) => `${printSeconds(seconds)}  ${file}`);
const failures = results.flatMap(({ suite: { name }, counts }) =>
  (counts.failures ?? []).map((failure) => `failed: ${name}: ${failure}\n`),
);
const notPossible = results.flatMap(({ suite: { name }, counts: { notPossible: left } }) =>
  left === undefined ? [] : [`${name}: ${String(left.count)} not possible here (${left.why})\n`],
);
const passed = sumOf(results, ({ counts }) => counts.passed);
const failed = sumOf(results, ({ counts }) => counts.failed);
const parts = [
  "",
  "Each, while others ran beside it, and what its processes computed (containers and daemons not counted):",
  ...lines,
  `${"all".padEnd(20)} ${printSeconds(sumOf(results, ({ counts }) => counts.processorSeconds ?? 0))} of a processor`,
  "",
  "Stages, beside what they may take on two idle cores:",
  ...times,
  `${"all".padEnd(18)} ${printTime(wholeSeconds, BUDGET.seconds)}`,
  `${"of processors".padEnd(18)} ${printTime(coreSeconds, BUDGET.coreSeconds)}  all that this machine computed, by the kernel's count`,
  "",
  "Slowest files:",
  ...slowest,
  "",
];

/** Returns the run's results in the form of `docs/test-results.md`. */
function printResult(): string {
  const commit = execFileSync("git", ["rev-parse", "--short=8", "HEAD"], { cwd: root });
  const lint = results.find(({ suite: { name } }) => name === "lint")?.counts.processorSeconds;
  const cells = [
    `\`hack/test${isLong ? " --long" : ""}\``,
    new Date().toISOString().slice(0, 10),
    `\`${commit.toString().trim()}\``,
    passed,
    failed,
    sumOf(results, ({ counts }) => counts.notPossible?.count ?? 0),
    wholeSeconds.toFixed(0),
    coreSeconds.toFixed(0),
    (lint ?? 0).toFixed(0),
  ];
  return [
    "| command | date | commit | passed | failed | not possible | seconds | core-seconds | lint, core-seconds |",
    `| ${cells.join(" | ")} |`,
    "",
    "",
  ].join("\n");
}

process.stdout.write(
  [
    `${parts.join("\n")}\n`,
    ...failures,
    ...notPossible,
    wanted.length === 0 ? `\nFor docs/test-results.md:\n${printResult()}` : "",
    `${String(passed)} passed, ${String(failed)} failed\n`,
  ].join(""),
);
process.exitCode = failed === 0 ? 0 : 1;
