// SPDX-License-Identifier: Apache-2.0
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { listLoopDevices, listReadOnlyMounts, parseReadOnlyMounts } from "./mounts.ts";

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

test("finds file systems that became read-only", async () => {
  const mountinfo = [
    "40 22 7:0 / /d/claims/a/mount rw,nosuid shared:1 - ext4 /dev/loop0 rw,discard,errors=remount-ro",
    "41 22 7:1 / /d/claims/b/mount rw,nosuid - ext4 /dev/loop1 ro,discard,errors=remount-ro",
    "42 22 7:2 / /d/claims/c/mount rw,nosuid - ext4 /dev/loop2 rw,emergency_ro,discard",
    "43 22 7:3 / /d/images ro - ext4 /dev/loop3 ro",
  ].join("\n");
  expect(parseReadOnlyMounts(mountinfo, "/d/claims")).toEqual([
    "/d/claims/b/mount",
    "/d/claims/c/mount",
  ]);
  expect(await listReadOnlyMounts("/nowhere")).toEqual([]);
});
