// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

function checkNames(...args: readonly string[]) {
  const script = join(import.meta.dirname, "test.ts");
  const argv = ["--conditions=@patchbay/source", script, "--names", ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8" });
  return { status, stdout, stderr };
}

test("accepts names of the summary, also without their last word", () => {
  const ended = checkNames("--long", "lint", "unit", "guest contract tests", "installed tests");
  expect(ended).toEqual({ status: 0, stdout: "", stderr: "" });
});

test.each([
  {
    name: "an unknown suite and flag",
    args: ["unit", "--lnog", "unti"],
    unknown: 'suite "--lnog", "unti"',
  },
  { name: "a suite of the long form alone", args: ["installed tests"], unknown: "installed tests" },
])("rejects $name with the names that exist", ({ args, unknown }) => {
  const { status, stderr } = checkNames(...args);
  expect(status).toBe(2);
  expect(stderr).toContain(unknown);
  expect(stderr.split("\n")).toContain("  unit tests");
  expect(stderr.split("\n")).toContain("  guest contract tests");
});
