// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { judgeDisk } from "./verdict.ts";

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
])("$source of format $format is taken", ({ source, info, format }) => {
  expect(judgeDisk(fileOf(source, info))).toEqual({ format, virtualBytes: GIB });
});

test("a disk of 64 TiB is the largest that is taken", () => {
  const largest = { ...RAW, "virtual-size": 64 * 2 ** 40 };
  expect(judgeDisk(fileOf("a.img", largest))).toMatchObject({ virtualBytes: 64 * 2 ** 40 });
});

test("a long name in a disk is cut", () => {
  const file = fileOf("a.img", qcow2({ "backing-filename": "x".repeat(1000) }));
  expect(() => judgeDisk(file)).toThrow(`of the file "${"x".repeat(199)} and`);
});

test("a qcow2 file may end anywhere", () => {
  expect(judgeDisk(fileOf("a.qcow2", qcow2(), 1001))).toMatchObject({ format: "qcow2" });
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
    name: "whose size is not a number",
    file: fileOf("a.img", { ...RAW, "virtual-size": "1 GiB" }),
    want: "it is empty",
  },
  {
    name: "that is called raw and is not",
    file: fileOf("a.raw", qcow2()),
    want: "it is named raw and holds a disk of format qcow2",
  },
  {
    name: "that is called qcow2 and is not",
    file: fileOf("a.qcow2", RAW),
    want: "the download is complete",
  },
  {
    name: "with a backing file",
    file: fileOf("a.img", qcow2({ "backing-filename": "/etc/shadow" })),
    want: 'an overlay of the file "/etc/shadow"',
  },
  {
    name: "with a backing file that only the whole name tells",
    file: fileOf("a.img", qcow2({ "full-backing-filename": "nbd://x" })),
    want: 'an overlay of the file "nbd://x"',
  },
  {
    name: "with its data elsewhere",
    file: fileOf("a.img", qcow2({}, { "data-file": "/etc/shadow" })),
    want: 'its data is in another file, "/etc/shadow"',
  },
  {
    name: "whose words a terminal would obey",
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
    name: "of a part of a sector",
    file: fileOf("a.img", RAW, 1001),
    want: "not a whole number of 512-byte sectors",
  },
  {
    name: "that is too large for any guest",
    file: fileOf("a.img", qcow2({ "virtual-size": 10 * 2 ** 60 })),
    want: "larger than 64 TiB",
  },
  {
    name: "that is empty",
    file: fileOf("a.img", { ...RAW, "virtual-size": 0 }, 0),
    want: "it is empty",
  },
  {
    name: "of which nothing is said",
    file: fileOf("a.img", "no json"),
    want: "does not report its format",
  },
])("a file $name is refused", ({ file, want }) => {
  expect(() => judgeDisk(file)).toThrow(want);
});
