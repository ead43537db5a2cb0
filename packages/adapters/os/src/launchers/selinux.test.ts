// SPDX-License-Identifier: Apache-2.0
// A kernel's SELinux as files; one that refuses a label is played by another file of the kernel's that refuses words.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { labelForContainers, readSelinux } from "./selinux.ts";

/** Takes numbers, and answers EINVAL to all else. Source: proc(5). */
const REFUSES = "/proc/self/oom_score_adj";
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-selinux-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test("is off in a kernel without SELinux and when it is disabled", () => {
  expect(readSelinux(join(directory, "none"))).toEqual({ mode: "off", hasContainerType: false });
  expect(readSelinux(directory)).toEqual({ mode: "off", hasContainerType: false });
});

test.each([
  { enforce: "1", mode: "enforcing", hasContainerType: true },
  { enforce: "1\n", mode: "enforcing", hasContainerType: false },
  { enforce: "0", mode: "permissive", hasContainerType: true },
  { enforce: "0", mode: "permissive", hasContainerType: false },
])("mode $mode, policy supports containers' files: $hasContainerType", ({ enforce, ...want }) => {
  writeFileSync(join(directory, "enforce"), enforce);
  if (want.hasContainerType) writeFileSync(join(directory, "context"), "");
  else symlinkSync(REFUSES, join(directory, "context"));
  expect(readSelinux(directory)).toEqual(want);
});

test("fails if the policy cannot be queried", () => {
  writeFileSync(join(directory, "enforce"), "1");
  mkdirSync(join(directory, "context"));
  expect(() => readSelinux(directory)).toThrow("EISDIR");
});

test("labels a file only if the kernel has SELinux", () => {
  const missing = join(directory, "missing");
  labelForContainers(missing, join(directory, "none"));
  writeFileSync(join(directory, "enforce"), "1");
  expect(() => {
    labelForContainers(missing, directory);
  }).toThrow("ENOENT");
});
