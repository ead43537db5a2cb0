// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { copyDisk, printMib, inspectDisk, checkDisk } from "./disk.ts";

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
])("converts a disk of format $format to $name, readable by the launchers", async (row) => {
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

test("a disk needs three times its size, and is not copied without that space", async () => {
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
])("prints $bytes bytes as $want", ({ bytes, want }) => {
  expect(printMib(bytes)).toBe(want);
});

const FILE = { path: "/checked/copy", source: "disk.img" };

test("qemu-img receives an open file and runs without root privileges", async () => {
  const runner = createFakeProcessRunner({ sh: () => ({ stdout: "{}" }) });
  expect(await inspectDisk(runner, FILE)).toBe("{}");
  const [argv = []] = runner.commands.map((command) => command.argv);
  expect(argv.slice(-4)).toEqual(["qemu-img", "info", "--output=json", "/dev/stdin"]);
  expect(argv).toEqual(
    expect.arrayContaining(["--net", "--reuid=107", "--bounding-set=-all", "--no-new-privs"]),
  );
  expect(argv.filter((word) => word.includes("/checked"))).toEqual(["/checked/copy"]);
});

test.each([
  {
    name: "with the last line of stderr and escaped control characters",
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
    name: "if qemu-img was killed without a message",
    ends: { exitCode: 137 },
    want: { details: { source: "disk.img", reason: "qemu-img ended with 137" } },
  },
  {
    name: "if qemu-img is not installed",
    ends: { exitCode: 127, stderr: "setpriv: failed to execute qemu-img" },
    want: { code: "OS_PROGRAM_MISSING", details: { program: "qemu-img" } },
  },
])("reports a failure $name", async ({ ends, want }) => {
  const runner = createFakeProcessRunner({ sh: () => ends });
  await expect(inspectDisk(runner, FILE)).rejects.toMatchObject(want);
});

const GIB = 2 ** 30;
const RAW = { format: "raw", "virtual-size": GIB };

function qcow2(more: object = {}, data: object = {}): object {
  const specific = { type: "qcow2", data: { corrupt: false, ...data } };
  return { format: "qcow2", "virtual-size": GIB, "format-specific": specific, ...more };
}

function fileOf(source: string, info: unknown, bytes = 1024) {
  return { source, bytes, info: typeof info === "string" ? info : JSON.stringify(info) };
}

test.each([
  { source: "a.qcow2", info: qcow2(), format: "qcow2" },
  { source: "a.img", info: qcow2(), format: "qcow2" },
  { source: "a.img", info: RAW, format: "raw" },
  { source: "a.iso", info: RAW, format: "raw" },
  { source: "a.raw.img", info: qcow2(), format: "qcow2" },
  { source: "a.RAW", info: RAW, format: "raw" },
])("accepts $source of format $format", ({ source, info, format }) => {
  expect(checkDisk(fileOf(source, info))).toEqual({ format, virtualBytes: GIB });
});

test("accepts a disk of at most 64 TiB", () => {
  const largest = { ...RAW, "virtual-size": 64 * 2 ** 40 };
  expect(checkDisk(fileOf("a.img", largest))).toMatchObject({ virtualBytes: 64 * 2 ** 40 });
});

test("truncates a long name from a disk", () => {
  const file = fileOf("a.img", qcow2({ "backing-filename": "x".repeat(1000) }));
  expect(() => checkDisk(file)).toThrow(`of the file "${"x".repeat(199)} and`);
});

test("accepts a qcow2 file of any length", () => {
  expect(checkDisk(fileOf("a.qcow2", qcow2(), 1001))).toMatchObject({ format: "qcow2" });
});

test.each([
  {
    name: "of another format",
    file: fileOf("a.vmdk", { format: "vmdk", "virtual-size": GIB }),
    want: "qemu-img convert -O qcow2 a.vmdk a.qcow2",
  },
  {
    name: "of another format and with several endings",
    file: fileOf("my.disk.vmdk", { format: "vmdk", "virtual-size": GIB }),
    want: "qemu-img convert -O qcow2 my.disk.vmdk my.disk.qcow2",
  },
  {
    name: "with a size that is not a number",
    file: fileOf("a.img", { ...RAW, "virtual-size": "1 GiB" }),
    want: "it is empty",
  },
  {
    name: "named raw with another format",
    file: fileOf("a.raw", qcow2()),
    want: "it is named raw and contains a disk of format qcow2",
  },
  {
    name: "named qcow2 with another format",
    file: fileOf("a.qcow2", RAW),
    want: "the download is complete",
  },
  {
    name: "with a backing file",
    file: fileOf("a.img", qcow2({ "backing-filename": "/etc/shadow" })),
    want: 'an overlay of the file "/etc/shadow"',
  },
  {
    name: "with a backing file that only full-backing-filename reports",
    file: fileOf("a.img", qcow2({ "full-backing-filename": "nbd://x" })),
    want: 'an overlay of the file "nbd://x"',
  },
  {
    name: "with an external data file",
    file: fileOf("a.img", qcow2({}, { "data-file": "/etc/shadow" })),
    want: 'its data is in another file, "/etc/shadow"',
  },
  {
    name: "and escapes control characters from the file",
    file: fileOf("a.img", qcow2({ "backing-filename": "\u001b[2J" })),
    want: "\\u001b[2J",
  },
  {
    name: "that is encrypted",
    file: fileOf("a.img", qcow2({ encrypted: true })),
    want: "encrypted",
  },
  { name: "that is corrupt", file: fileOf("a.img", qcow2({}, { corrupt: true })), want: "check" },
  {
    name: "with a partial sector",
    file: fileOf("a.img", RAW, 1001),
    want: "not a whole number of 512-byte sectors",
  },
  {
    name: "that exceeds the maximum disk size",
    file: fileOf("a.img", qcow2({ "virtual-size": 10 * 2 ** 60 })),
    want: "larger than 64 TiB",
  },
  {
    name: "that is empty",
    file: fileOf("a.img", { ...RAW, "virtual-size": 0 }, 0),
    want: "it is empty",
  },
  {
    name: "without a reported format",
    file: fileOf("a.img", "no json"),
    want: "does not report its format",
  },
])("rejects a file $name", ({ file, want }) => {
  expect(() => checkDisk(file)).toThrow(want);
});
