// SPDX-License-Identifier: Apache-2.0
import { NOT_POSSIBLE } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { addHookErrors, countReport, type VitestReport } from "./test-report.ts";

type VitestFile = VitestReport["testResults"][number];

const MISSING = `Error: ${NOT_POSSIBLE} /usr/bin/dpdk-testpmd is missing\n    at start (file.ts:1:1)`;
const WHY = "/usr/bin/dpdk-testpmd is missing";
const PASSED = { status: "passed", fullName: "works", failureMessages: [] };
const SKIPPED = { status: "skipped", fullName: "does not run", failureMessages: [] };

function failedBy(...failureMessages: readonly string[]): VitestFile["assertionResults"][number] {
  return { status: "failed", fullName: "breaks", failureMessages };
}

function aFile(changes: Partial<VitestFile>): VitestFile {
  return {
    name: "/root/a.test.ts",
    status: "passed",
    message: "",
    assertionResults: [],
    ...changes,
  };
}

describe("tests that did not pass", () => {
  test.each([
    {
      name: "a failed test",
      file: { assertionResults: [failedBy("Error: no\n    at a.ts:1:1")] },
      failure: "a.test.ts: breaks\n    Error: no",
    },
    {
      name: "a skipped test",
      file: { assertionResults: [SKIPPED] },
      failure: "a.test.ts: does not run",
    },
    {
      name: "a file that cannot be loaded",
      file: { status: "failed", message: "Error: syntax" },
      failure: "a.test.ts\n    Error: syntax",
    },
    {
      name: "a test that fails because of a missing program and for another reason",
      file: { assertionResults: [failedBy(MISSING, "Error: no")] },
      failure: `a.test.ts: breaks\n    Error: ${NOT_POSSIBLE} ${WHY}\n    Error: no`,
    },
  ])("reports $name as failed", ({ file, failure }) => {
    expect(countReport({ testResults: [aFile(file)] }, "/root")).toEqual({
      passed: 0,
      failed: 1,
      failures: [failure],
    });
  });

  test.each([
    {
      name: "a test that needs a missing program",
      file: { assertionResults: [PASSED, failedBy(MISSING)] },
      passed: 1,
      count: 1,
    },
    {
      name: "tests after a hook that needs a missing program",
      file: { status: "failed", message: MISSING, assertionResults: [SKIPPED, SKIPPED] },
      passed: 0,
      count: 2,
    },
    {
      name: "a file that needs a missing program",
      file: { status: "failed", message: MISSING },
      passed: 0,
      count: 1,
    },
  ])("reports $name as not possible, neither passed nor failed", ({ file, passed, count }) => {
    expect(countReport({ testResults: [aFile(file)] }, "/root")).toEqual({
      passed,
      failed: 0,
      failures: [],
      notPossible: { count, why: WHY },
    });
  });

  test("reports the error of a hook inside a describe with the first test that did not run", () => {
    const report = {
      testResults: [aFile({ assertionResults: [PASSED, SKIPPED, { ...SKIPPED }] })],
    };
    const whole = addHookErrors(
      report,
      new Map([["/root/a.test.ts", "no guest\n    at a.ts:1:1"]]),
    );
    expect(countReport(whole, "/root")).toEqual({
      passed: 1,
      failed: 2,
      failures: ["a.test.ts: does not run\n    no guest", "a.test.ts: does not run"],
    });
  });

  test("reports a suite without tests as failed", () => {
    expect(countReport({ testResults: [] }, "/root")).toMatchObject({ passed: 0, failed: 1 });
  });

  test("quotes the end of the output as the reason of a suite without tests", () => {
    const output = [
      "first\n",
      ...Array.from({ length: 59 }, () => "more\n"),
      "\n",
      "\u001b[31mlast\u001b[39m\n",
    ];
    const { failures } = countReport({ testResults: [] }, "/root", output);
    const lines = failures.join("").split("\n");
    expect(lines).toHaveLength(61);
    expect(lines.at(1)).toBe("    more");
    expect(lines.at(-1)).toBe("    last");
  });
});
