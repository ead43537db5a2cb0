// SPDX-License-Identifier: Apache-2.0
// Counts the results in a vitest report: passed, failed, and not possible because a program is missing.
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { NOT_POSSIBLE } from "@patchbay/support";

export interface VitestReport {
  readonly testResults: readonly VitestFile[];
}

interface VitestFile {
  readonly name: string;
  readonly status: string;
  /** The first error outside the file's tests, such as of a hook. */
  readonly message: string;
  readonly assertionResults: readonly VitestTest[];
}

interface VitestTest {
  readonly status: string;
  readonly fullName: string;
  readonly failureMessages?: readonly string[];
}

/** The results of one suite. */
export interface ReportCounts {
  readonly passed: number;
  readonly failed: number;
  /** Names of failed tests, with reasons. */
  readonly failures: readonly string[];
  /** Unset when every test was possible. */
  readonly notPossible?: { readonly count: number; readonly why: string };
}

/** Lines of output in the summary when a report has no reason. */
const END_LINES = 60;

/** Width of a reason in the summary. */
const REASON_COLUMNS = 500;

/** Joins the messages without code locations, because users read them at the end of a log. */
function reasonOf(messages: readonly string[] = []): string {
  const lines = messages.flatMap((message) => {
    const all = message.split("\n");
    const stack = all.findIndex((line) => /^\s+at /.test(line));
    return stack === -1 ? all : all.slice(0, stack);
  });
  return lines.map((line) => `\n    ${line.slice(0, REASON_COLUMNS)}`).join("");
}

/**
 * Returns the last lines of a program's output, without colors and blank lines. Reports omit errors outside tests, and a
 * CI may retain only the end of a long log.
 */
export function quoteEnd(output: readonly string[]): string {
  const lines = output.map((line) => stripVTControlCharacters(line).trimEnd());
  const last = lines.filter((line) => line !== "").slice(-END_LINES);
  return last.map((line) => `\n    ${line.slice(0, REASON_COLUMNS)}`).join("");
}

/** Returns the text after NOT_POSSIBLE in an error's first line; undefined for other errors. */
function missingIn(message: string): string | undefined {
  const [line = ""] = message.split("\n");
  return line.split(`${NOT_POSSIBLE} `)[1];
}

interface Judged {
  readonly name: string;
  /** Unset for a failure. */
  readonly missing: string | undefined;
}

/** Adds the errors of hooks inside a `describe`, which vitest's JSON leaves out. `errors`: by path of the file. */
export function addHookErrors(
  { testResults }: VitestReport,
  errors: ReadonlyMap<string, string>,
): VitestReport {
  return {
    testResults: testResults.map((file) => ({
      ...file,
      message: file.message === "" ? (errors.get(file.name) ?? "") : file.message,
    })),
  };
}

/** Lists the tests and errors of a file that did not pass. */
function judgeFile(
  { name, status, message, assertionResults }: VitestFile,
  root: string,
): readonly Judged[] {
  const file = relative(root, name);
  const ofFile = missingIn(message);
  if (status === "failed" && assertionResults.length === 0) {
    return [{ name: `${file}${reasonOf(message === "" ? [] : [message])}`, missing: ofFile }];
  }
  // A test that did not run because its hook failed has no message of its own.
  const firstNotRun = assertionResults.find(({ status: ended }) => ended === "skipped");
  return assertionResults
    .filter((test) => test.status !== "passed")
    .map((test) => {
      const { status: ended, fullName, failureMessages = [] } = test;
      const reasons = failureMessages.map(missingIn);
      const own = reasons.every((reason) => reason !== undefined) ? reasons[0] : undefined;
      const messages = test === firstNotRun && message !== "" ? [message] : failureMessages;
      return {
        name: `${file}: ${fullName}${reasonOf(messages)}`,
        missing: ended === "failed" ? own : ofFile,
      };
    });
}

/**
 * Counts skipped tests, files that failed to load and empty suites as failed.
 *
 * @param output - what the suite printed, by lines; its end is the reason of an empty suite
 */
export function countReport(
  { testResults }: VitestReport,
  root: string,
  output: readonly string[] = [],
): ReportCounts {
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  const passed = tests.filter(({ status }) => status === "passed").length;
  const results = testResults.flatMap((file) => judgeFile(file, root));
  const failures = results.filter(({ missing }) => missing === undefined).map(({ name }) => name);
  const reasons = results.flatMap(({ missing }) => missing ?? []);
  if (passed === 0 && results.length === 0) {
    failures.push(`no test has run; the suite's output ends with${quoteEnd(output)}`);
  }
  const notPossible = { count: reasons.length, why: [...new Set(reasons)].join("; ") };
  return {
    passed,
    failed: failures.length,
    failures,
    ...(reasons.length > 0 && { notPossible }),
  };
}
