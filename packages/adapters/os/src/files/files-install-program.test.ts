// SPDX-License-Identifier: Apache-2.0
// A program in the place of another.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { installProgram } from "./files.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "install-program-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test("replaces a program and makes it executable", async () => {
  const [source, target] = [join(directory, "a"), join(directory, "b")];
  writeFileSync(source, "new", { mode: 0o600 });
  writeFileSync(target, "old");
  const { ino } = statSync(target);
  await installProgram(source, target);
  expect(readFileSync(target, "utf8")).toBe("new");
  expect(statSync(target).mode & 0o777).toBe(0o755);
  // Whoever runs the old one goes on with it.
  expect(statSync(target).ino).not.toBe(ino);
});

test("a missing source changes nothing", async () => {
  const failed = installProgram(join(directory, "a"), join(directory, "b"));
  await expect(failed).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
  expect(readdirSync(directory)).toEqual([]);
});
