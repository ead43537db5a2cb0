// SPDX-License-Identifier: Apache-2.0
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { runProgram } from "./run-program.ts";

test("a program that succeeds answers its output, and has ten seconds for it", async () => {
  const runner = createFakeProcessRunner({ blkid: () => ({ stdout: "ext4\n" }) });
  expect(await runProgram(runner, "blkid", "-o", "value")).toBe("ext4\n");
  expect(runner.commands).toEqual([{ argv: ["blkid", "-o", "value"], timeoutMs: 10_000 }]);
});

test("a program that fails is an error with its first words, its code and its output", async () => {
  const runner = createFakeProcessRunner({
    mount: () => ({ exitCode: 32, stdout: "half", stderr: " no such device\n" }),
  });
  await expect(runProgram(runner, "mount", "-t", "ext4", "/dev/x")).rejects.toMatchObject({
    code: "OS_PROGRAM_FAILED",
    details: { program: "mount -t ext4", exitCode: 32, stderr: "no such device" },
  });
});
