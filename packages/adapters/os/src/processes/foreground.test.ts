// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { runInForeground } from "./foreground.ts";

test.each([
  { name: "a code", script: "exit 7", want: 7 },
  { name: "a signal", script: "kill -TERM $$", want: 128 + 15 },
])("a program that ends with $name gives $want", async ({ script, want }) => {
  expect(await runInForeground(["sh", "-c", script])).toBe(want);
});

test("one that cannot be run is an error of the kernel", async () => {
  await expect(runInForeground(["/etc"])).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "exec", path: "/etc", errno: "EACCES" },
  });
});

test("one that is not there is named", async () => {
  await expect(runInForeground(["no-such-program-anywhere"])).rejects.toMatchObject({
    code: "OS_PROGRAM_MISSING",
    details: { program: "no-such-program-anywhere" },
  });
});
