// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { copyDisk, inMib } from "./copy-disk.ts";

/** Free space of the file system in memory, bytes. */
const FREE = 2 ** 39;

function machine(bytes: number, info: object) {
  const runner = createFakeProcessRunner({
    stat: () => ({ stdout: `${String(bytes)}\n` }),
    sh: () => ({ stdout: JSON.stringify(info) }),
    ...Object.fromEntries(["cp", "chown", "chmod", "mv"].map((name) => [name, () => ({})])),
  });
  const copied = copyDisk(
    { files: createFakeFiles(), runner },
    { source: "disk.img", path: "/disks/disk.img", root: "/machine/root" },
  );
  return { copied, lines: () => runner.commands.map(({ argv }) => argv.join(" ")) };
}

test.each([
  { format: "raw", name: "disk.img", specific: {} },
  { format: "qcow2", name: "disk.qcow2", specific: { "format-specific": { data: {} } } },
])("a disk of format $format becomes $name, which the launchers may read", async (row) => {
  const info = { format: row.format, "virtual-size": 2 ** 20, ...row.specific };
  const { copied, lines } = machine(2 ** 20, info);
  expect(await copied).toEqual({ format: row.format, virtualBytes: 2 ** 20, bytes: 2 ** 20 });
  expect(lines().filter((line) => !line.startsWith("sh "))).toEqual([
    "stat --dereference --format=%s /disks/disk.img",
    "cp --reflink=auto --sparse=always /disks/disk.img /machine/root/disk/file",
    "chown 107:107 /machine/root/disk/file",
    "chmod 0440 /machine/root/disk/file",
    `mv /machine/root/disk/file /machine/root/disk/${row.name}`,
  ]);
});

test("a disk needs three times its size, and is not copied without that", async () => {
  const info = { format: "raw", "virtual-size": 2 ** 20 };
  const most = Math.floor(FREE / 3 / 512) * 512;
  expect(await machine(most, info).copied).toMatchObject({ bytes: most });
  const { copied, lines } = machine(most + 512, info);
  await expect(copied).rejects.toMatchObject({
    code: "IMAGE_SOURCE_INVALID",
    details: {
      source: "disk.img",
      reason: "it needs 524289 MiB on the file system of /machine/root, which has 524288 MiB free",
    },
  });
  expect(lines()).toHaveLength(1);
});

test.each([
  { bytes: 0, want: "0 MiB" },
  { bytes: 1, want: "1 MiB" },
  { bytes: 2 ** 20, want: "1 MiB" },
  { bytes: 2 ** 20 + 1, want: "2 MiB" },
])("$bytes bytes are $want", ({ bytes, want }) => {
  expect(inMib(bytes)).toBe(want);
});
