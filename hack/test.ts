// SPDX-License-Identifier: Apache-2.0
// Runs every check and suite one after the other, shows how long each took, and counts.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const root = join(import.meta.dirname, "..");
const env = {
  ...process.env,
  PATH: [join(root, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter),
};

interface Counts {
  readonly passed: number;
  readonly failed: number;
}

interface Suite {
  readonly name: string;
  readonly run: () => Counts;
}

function succeeds(argv: readonly string[]): boolean {
  const [program = "", ...args] = argv;
  return spawnSync(program, args, { cwd: root, env, stdio: "inherit" }).status === 0;
}

function check(name: string, argv: readonly string[]): Suite {
  return {
    name,
    run: () => (succeeds(argv) ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }),
  };
}

interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly unknown[];
  }[];
}

/** A skipped test is a failed one, and so is a file that could not be loaded, and a suite without tests. */
function countReport(path: string): Counts {
  // Written by vitest's json reporter just before.
  const report = JSON.parse(readFileSync(path, "utf8")) as VitestReport;
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  ).length;
  const failed = report.numFailedTests + report.numPendingTests + report.numTodoTests + broken;
  const none = report.numPassedTests === 0 && failed === 0;
  return { passed: report.numPassedTests, failed: none ? 1 : failed };
}

function suite(project: string): Suite {
  return {
    name: `${project} tests`,
    run: () => {
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
      return ok || counts.failed > 0 ? counts : { ...counts, failed: 1 };
    },
  };
}

const SUITES: readonly Suite[] = [
  check("format", ["npm", "run", "-s", "format:check"]),
  check("types", ["npm", "run", "-s", "types"]),
  check("lint", ["npm", "run", "-s", "lint"]),
  check("boundaries", ["npm", "run", "-s", "boundaries"]),
  check("unused code", ["npm", "run", "-s", "unused"]),
  check("generated files", ["npm", "run", "-s", "verify"]),
  suite("unit"),
  suite("contract"),
  suite("e2e"),
];

const wanted = process.argv.slice(2);
const rows: string[] = [];
let passed = 0;
let failed = 0;
for (const { name, run } of SUITES.filter(
  ({ name }) => wanted.length === 0 || wanted.includes(name),
)) {
  process.stdout.write(`\n=== ${name}\n`);
  const started = performance.now();
  const counts = run();
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  rows.push(
    `${name.padEnd(18)} ${String(counts.passed).padStart(5)} passed ${String(counts.failed).padStart(4)} failed ${seconds.padStart(7)} s`,
  );
  passed += counts.passed;
  failed += counts.failed;
}
process.stdout.write(
  `\n${rows.join("\n")}\n\n${String(passed)} passed, ${String(failed)} failed\n`,
);
process.exitCode = failed === 0 ? 0 : 1;
