// SPDX-License-Identifier: Apache-2.0
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { lookAtDisk } from "./look-at.ts";

const FILE = { path: "/checked/copy", source: "disk.img" };

test("qemu-img gets the file opened, and no right of root's", async () => {
  const runner = createFakeProcessRunner({ sh: () => ({ stdout: "{}" }) });
  expect(await lookAtDisk(runner, FILE)).toBe("{}");
  const [argv = []] = runner.commands.map((command) => command.argv);
  expect(argv.slice(-4)).toEqual(["qemu-img", "info", "--output=json", "/dev/stdin"]);
  expect(argv).toEqual(
    expect.arrayContaining(["--net", "--reuid=107", "--bounding-set=-all", "--no-new-privs"]),
  );
  expect(argv.filter((word) => word.includes("/checked"))).toEqual(["/checked/copy"]);
});

test.each([
  {
    name: "in its last words, which a terminal can show",
    ends: {
      exitCode: 1,
      stderr: "qemu-img: hm\nqemu-img: so\nqemu-img: Could not open '/dev/stdin': \u001b[2J\n",
    },
    want: {
      code: "IMAGE_SOURCE_INVALID",
      details: { source: "disk.img", reason: "qemu-img: Could not open 'disk.img': ?[2J" },
    },
  },
  {
    name: "in at most 300 characters",
    ends: { exitCode: 1, stderr: "x".repeat(1000) },
    want: { details: { source: "disk.img", reason: "x".repeat(300) } },
  },
  {
    name: "when it was killed without a word",
    ends: { exitCode: 137 },
    want: { details: { source: "disk.img", reason: "qemu-img ended with 137" } },
  },
  {
    name: "when it is not installed",
    ends: { exitCode: 127, stderr: "setpriv: failed to execute qemu-img" },
    want: { code: "OS_PROGRAM_MISSING", details: { program: "qemu-img" } },
  },
])("a failure is told $name", async ({ ends, want }) => {
  const runner = createFakeProcessRunner({ sh: () => ends });
  await expect(lookAtDisk(runner, FILE)).rejects.toMatchObject(want);
});
