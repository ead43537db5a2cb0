// SPDX-License-Identifier: Apache-2.0
// Runs every check and suite (or those that are named), shows how long each took, counts, and names what failed.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { FILE_TIMES, type FileTime } from "./file-times.ts";

const root = join(import.meta.dirname, "..");
const env = {
  ...process.env,
  PATH: [join(root, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter),
};

interface Counts {
  readonly passed: number;
  readonly failed: number;
  /** What failed, by name, as far as names are known, and with what. */
  readonly failures?: readonly string[];
  /** How many tests need what this machine does not have, and what that is. */
  readonly notPossible?: { readonly count: number; readonly why: string };
  /** How long each file took. */
  readonly files?: readonly FileTime[];
}

interface Suite {
  readonly name: string;
  readonly run: () => Promise<Counts>;
}

function printHeading(name: string): void {
  process.stdout.write(`\n=== ${name}\n`);
}

/** Runs a program that may run beside others; `tell` gets what it says, a line or more at a time. */
async function succeeds(
  argv: readonly string[],
  tell: (text: string) => void,
  more: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const [program = "", ...args] = argv;
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const child = spawn(program, args, { cwd: root, env: { ...env, ...more }, stdio: [...stdio] });
  const readAll = async (stream: Readable): Promise<void> => {
    for await (const line of createInterface(stream)) tell(`${line}\n`);
  };
  const closed = once(child, "close");
  await Promise.all([readAll(child.stdout), readAll(child.stderr), closed]);
  return child.exitCode === 0;
}

/** A program of a few lines: what it says is shown when it has ended. */
function check(name: string, argv: readonly string[]): Suite {
  const run = async (): Promise<Counts> => {
    const said: string[] = [];
    const ok = await succeeds(argv, (text) => said.push(text));
    printHeading(name);
    process.stdout.write(said.join(""));
    return ok ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
  };
  return { name, run };
}

/** Of a line of a reason, in the summary. */
const REASON_COLUMNS = 500;

/** For what the reports do not hold: errors outside of tests. */
const WHERE = "where the suite ran, above";

interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

/** What a test failed with, without the places in the code: whoever has only the end of a log sees why. */
function reasonOf(messages: readonly string[] = []): string {
  const said = messages.flatMap((message) => {
    const lines = message.split("\n");
    const stack = lines.findIndex((line) => /^\s+at /.test(line));
    return stack === -1 ? lines : lines.slice(0, stack);
  });
  return said.map((line) => `\n    ${line.slice(0, REASON_COLUMNS)}`).join("");
}

/** A skipped test is a failed one, and so is a file that could not be loaded, and a suite without tests. */
function countReport(path: string): Counts {
  // Written by vitest's json reporter just before.
  const report = JSON.parse(readFileSync(path, "utf8")) as VitestReport;
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  );
  const { numFailedTests, numPendingTests, numTodoTests, numPassedTests } = report;
  const failed = numFailedTests + numPendingTests + numTodoTests + broken.length;
  const none = numPassedTests === 0 && failed === 0;
  const failures = report.testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status !== "passed")
      .map(
        ({ fullName, failureMessages }) =>
          `${relative(root, name)}: ${fullName}${reasonOf(failureMessages)}`,
      ),
  );
  return {
    passed: numPassedTests,
    failed: none ? 1 : failed,
    failures: [
      ...failures,
      ...broken.map(({ name }) => relative(root, name)),
      ...(none ? [`no test has run; why is told ${WHERE}`] : []),
    ],
  };
}

function suite(project: string): Suite {
  return {
    name: `${project} tests`,
    run: async () => {
      printHeading(`${project} tests`);
      const output = join(root, ".cache", `${project}.json`);
      const times = join(root, ".cache", `${project}.times.json`);
      const reports = [
        ...["--reporter=default", "--reporter=json", "--reporter=./hack/file-times.ts"],
        `--outputFile.json=${output}`,
      ];
      const argv = ["vitest", "run", "--project", project, ...reports];
      const tell = (text: string): void => {
        process.stdout.write(text);
      };
      const ok = await succeeds(argv, tell, { [FILE_TIMES]: times });
      // Written by that reporter just before.
      const files = JSON.parse(readFileSync(times, "utf8")) as readonly FileTime[];
      const counts = { ...countReport(output), files };
      if (ok || counts.failed > 0) return counts;
      const failures = [`an error outside of its tests; it is told ${WHERE}`];
      return { ...counts, failed: 1, failures };
    },
  };
}

/** How many tests a project has; none is run. */
function countTests(project: string): number {
  const argv = ["list", "--project", project, "--json"];
  const listed = spawnSync("vitest", argv, { cwd: root, env, encoding: "utf8" });
  // Written by vitest: an entry for each test.
  return (JSON.parse(listed.stdout) as readonly unknown[]).length;
}

/** What a suite needs of the surroundings; without it its tests are counted, and are neither passed nor failed. */
function suiteWith(project: string, variable: string, why: string): Suite {
  const whole = suite(project);
  const isPossible = (process.env[variable] ?? "") !== "";
  const run = (): Promise<Counts> =>
    Promise.resolve({
      passed: 0,
      failed: 0,
      notPossible: { count: countTests(project), why },
    });
  return isPossible ? whole : { name: whole.name, run };
}

interface Stage {
  readonly name: string;
  /** How long it may take on two idle cores, seconds. */
  readonly budget: number;
  /** They run beside one another, each from left to right. */
  readonly rows: readonly (readonly Suite[])[];
}

/** They follow one another. */
const STAGES: readonly Stage[] = [
  {
    name: "static checks",
    budget: 90,
    rows: [
      // It takes as long as the others together.
      [check("lint", ["npm", "run", "-s", "lint"])],
      [
        check("format", ["npm", "run", "-s", "format:check"]),
        check("types", ["npm", "run", "-s", "types"]),
        check("boundaries", ["npm", "run", "-s", "boundaries"]),
        check("folder sizes", ["npm", "run", "-s", "folders"]),
        check("unused code", ["npm", "run", "-s", "unused"]),
        check("duplicates", ["npm", "run", "-s", "duplicates"]),
        check("generated files", ["npm", "run", "-s", "verify"]),
      ],
    ],
  },
  { name: "unit", budget: 120, rows: [[suite("unit")]] },
  { name: "contracts", budget: 180, rows: [[suite("contract")]] },
  { name: "attacks", budget: 90, rows: [[suite("attacks")]] },
  {
    name: "guests",
    budget: 360,
    // A guest under emulation takes one core: two machines boot their guests beside one another.
    rows: [
      [suite("e2e"), suite("strict")],
      [suite("boots"), suite("installed")],
    ],
  },
  {
    name: "cluster",
    budget: 60,
    rows: [[suiteWith("cluster", "PATCHBAY_KUBECONFIG", "no cluster named")]],
  },
];

interface Result {
  readonly name: string;
  readonly counts: Counts;
  readonly seconds: number;
}

const wanted = process.argv.slice(2);

async function runRow(row: readonly Suite[]): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const { name, run } of row) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const started = performance.now();
    const counts = await run();
    results.push({ name, counts, seconds: (performance.now() - started) / 1000 });
  }
  return results;
}

function printTime(seconds: number): string {
  return `${seconds.toFixed(1).padStart(7)} s`;
}

/** Of files, in the summary. */
const SLOWEST = 10;

const results: Result[] = [];
const times: string[] = [];
for (const { name, budget, rows } of STAGES) {
  const started = performance.now();
  const stage = (await Promise.all(rows.map(runRow))).flat();
  const seconds = (performance.now() - started) / 1000;
  results.push(...stage);
  if (stage.length > 0) {
    times.push(`${name.padEnd(18)} ${printTime(seconds)} of ${printTime(budget)}`);
  }
}

const lines = results.map(({ name, counts, seconds }) => {
  const { passed, failed } = counts;
  return `${name.padEnd(18)} ${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${printTime(seconds)}`;
});
const slowest = results
  .flatMap(({ counts }) => counts.files ?? [])
  .toSorted((left, right) => right.seconds - left.seconds)
  .slice(0, SLOWEST)
  .map(({ file, seconds }) => `${printTime(seconds)}  ${file}`);
const failures = results.flatMap(({ name, counts }) =>
  (counts.failures ?? []).map((failure) => `failed: ${name}: ${failure}\n`),
);
const sum = (key: "passed" | "failed"): number =>
  results.reduce((total, { counts }) => total + counts[key], 0);
const notPossible = results.flatMap(({ name, counts: { notPossible: left } }) =>
  left === undefined ? [] : [`${name}: ${String(left.count)} not possible here (${left.why})\n`],
);
process.stdout.write(
  `\n${lines.join("\n")}\n\nStages, beside what each may take on two idle cores:\n${times.join("\n")}\n\nSlowest files:\n${slowest.join("\n")}\n\n${failures.join("")}${notPossible.join("")}${String(sum("passed"))} passed, ${String(sum("failed"))} failed\n`,
);
process.exitCode = sum("failed") === 0 ? 0 : 1;
