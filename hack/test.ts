// SPDX-License-Identifier: Apache-2.0
// Runs every check and suite (or those that are named), shows how long each took, counts, and names what failed.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";

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
}

interface Suite {
  readonly name: string;
  readonly run: () => Promise<Counts>;
}

function printHeading(name: string): void {
  process.stdout.write(`\n=== ${name}\n`);
}

function succeeds(argv: readonly string[]): boolean {
  const [program = "", ...args] = argv;
  return spawnSync(program, args, { cwd: root, env, stdio: "inherit" }).status === 0;
}

/** A program that runs beside others: what it says is shown when it has ended. */
function check(name: string, argv: readonly string[]): Suite {
  const run = async (): Promise<Counts> => {
    const [program = "", ...args] = argv;
    const child = spawn(program, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    const said: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data: Buffer) => said.push(data));
    }
    await once(child, "close");
    printHeading(name);
    process.stdout.write(Buffer.concat(said));
    return child.exitCode === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
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
    run: () => {
      printHeading(`${project} tests`);
      const output = join(root, ".cache", `${project}.json`);
      const ok = succeeds([
        "vitest",
        "run",
        "--project",
        project,
        "--reporter=default",
        "--reporter=json",
        `--outputFile.json=${output}`,
      ]);
      const counts = countReport(output);
      if (ok || counts.failed > 0) return Promise.resolve(counts);
      const failures = [`an error outside of its tests; it is told ${WHERE}`];
      return Promise.resolve({ ...counts, failed: 1, failures });
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

/** Stages follow one another; the rows of a stage run beside one another, each from left to right. */
const STAGES: readonly (readonly (readonly Suite[])[])[] = [
  [
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
  [[suite("unit")]],
  [[suite("contract")]],
  [[suite("attacks")]],
  [[suite("e2e")]],
  [[suite("strict")]],
  [[suite("installed")]],
  [[suiteWith("cluster", "PATCHBAY_KUBECONFIG", "no cluster named")]],
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

const results: Result[] = [];
for (const stage of STAGES) results.push(...(await Promise.all(stage.map(runRow))).flat());

const lines = results.map(({ name, counts, seconds }) => {
  const { passed, failed } = counts;
  const time = seconds.toFixed(1).padStart(7);
  return `${name.padEnd(18)} ${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${time} s`;
});
const failures = results.flatMap(({ name, counts }) =>
  (counts.failures ?? []).map((failure) => `failed: ${name}: ${failure}\n`),
);
const sum = (key: "passed" | "failed"): number =>
  results.reduce((total, { counts }) => total + counts[key], 0);
const notPossible = results.flatMap(({ name, counts: { notPossible: left } }) =>
  left === undefined ? [] : [`${name}: ${String(left.count)} not possible here (${left.why})\n`],
);
process.stdout.write(
  `\n${lines.join("\n")}\n\n${failures.join("")}${notPossible.join("")}${String(sum("passed"))} passed, ${String(sum("failed"))} failed\n`,
);
process.exitCode = sum("failed") === 0 ? 0 : 1;
