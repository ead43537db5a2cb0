// SPDX-License-Identifier: Apache-2.0
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { listLoopDevices } from "./mounts.ts";

test.each([
  { name: "none", stdout: "", want: [] },
  {
    name: "a permanent and an autoclear device",
    stdout: "/dev/loop0 0\n/dev/loop1 1\n",
    want: [
      { name: "/dev/loop0", isPermanent: true },
      { name: "/dev/loop1", isPermanent: false },
    ],
  },
])("finds loop devices of a file: $name", async ({ stdout, want }) => {
  const runner = createFakeProcessRunner({ losetup: () => ({ stdout }) });
  expect(await listLoopDevices(runner, "/f")).toEqual(want);
  expect(runner.commands.map(({ argv }) => argv.slice(-2))).toEqual([["--associated", "/f"]]);
});

test("reports a failure of losetup with its output", async () => {
  const runner = createFakeProcessRunner({
    losetup: () => ({ exitCode: 1, stderr: " no /dev\n" }),
  });
  await expect(listLoopDevices(runner, "/f")).rejects.toMatchObject({
    code: "OS_PROGRAM_FAILED",
    details: { program: "losetup", exitCode: 1, stderr: "no /dev" },
  });
});
