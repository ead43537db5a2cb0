// SPDX-License-Identifier: Apache-2.0
// Publication of the files of a volume, by a user who owns them: files of other users are in tests/contract/os.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { VolumeFile } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, expect, test } from "vitest";
import { publishFiles } from "./volume-disk.ts";

const OWNER = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
let directory = "";
const at = (name: string): string => join(directory, name);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-publish-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function toFiles(texts: Readonly<Record<string, string>>, mode = 0o644) {
  const files = Object.entries(texts).map(([name, text]): [string, VolumeFile] => [
    name,
    { bytes: Buffer.from(text), mode, ...OWNER },
  ]);
  return new Map(files);
}

/** The visible names with their texts. */
function shown(): Readonly<Record<string, string>> {
  const paths = readdirSync(at("..data"), { recursive: true, encoding: "utf8" });
  const texts = paths
    .filter((path) => statSync(at(path)).isFile())
    .map((path) => [path, readFileSync(at(path), "utf8")]);
  return Object.fromEntries(texts) as Record<string, string>;
}

const visible = (): readonly string[] =>
  readdirSync(directory).filter((name) => !name.startsWith(".."));

test.each([
  { name: "the same files", next: toFiles({ a: "1", "deep/b": "2" }), want: false },
  {
    name: "different text of the same length",
    next: toFiles({ a: "3", "deep/b": "2" }),
    want: true,
  },
  { name: "longer text", next: toFiles({ a: "11", "deep/b": "2" }), want: true },
  { name: "another mode", next: toFiles({ a: "1", "deep/b": "2" }, 0o600), want: true },
  { name: "one file fewer", next: toFiles({ a: "1" }), want: true },
  { name: "one more file", next: toFiles({ a: "1", "deep/b": "2", c: "3" }), want: true },
  { name: "another name", next: toFiles({ a: "1", "deep/c": "2" }), want: true },
  {
    name: "a directory instead of a file",
    next: toFiles({ "a/b": "1", "deep/b": "2" }),
    want: true,
  },
  { name: "no files", next: toFiles({}), want: true },
])("publishing $name is a change: $want", async ({ next, want }) => {
  expect(await publishFiles(directory, toFiles({ a: "1", "deep/b": "2" }))).toBe(true);
  const before = readlinkSync(at("..data"));
  expect(await publishFiles(directory, next)).toBe(want);
  expect(readlinkSync(at("..data")) === before).toBe(!want);
  const texts = [...next].map(([name, { bytes }]) => [name, Buffer.from(bytes).toString()]);
  expect(shown()).toEqual(Object.fromEntries(texts));
  const names = new Set([...next.keys()].map((path) => path.split("/")[0]));
  expect(new Set(visible())).toEqual(names);
  for (const name of visible()) expect(readlinkSync(at(name))).toBe(`..data/${name}`);
  for (const [path, { mode }] of next) expect(statSync(at(path)).mode & 0o7777).toBe(mode);
  expect(readdirSync(directory)).toHaveLength(visible().length + 2);
});

test("all users may enter a publication's directories", async () => {
  await publishFiles(directory, toFiles({ "deep/b": "2" }));
  for (const name of ["..data", "deep"]) expect(statSync(at(name)).mode & 0o777).toBe(0o755);
});

test.each([
  {
    name: "a file was removed and another file was added",
    damage: () => {
      rmSync(at("..data/a"));
      writeFileSync(at("..data/z"), "1");
    },
  },
  {
    name: "a file became a symbolic link to the same text",
    damage: () => {
      rmSync(at("..data/a"));
      writeFileSync(at("other"), "1");
      symlinkSync("../other", at("..data/a"));
    },
  },
  {
    name: "a file has another mode",
    damage: () => {
      chmodSync(at("..data/a"), 0o600);
    },
  },
  {
    name: "the directory of the files is missing",
    damage: () => {
      rmSync(join(directory, readlinkSync(at("..data"))), { recursive: true });
    },
  },
])("writes files again if $name", async ({ damage }) => {
  await publishFiles(directory, toFiles({ a: "1" }));
  damage();
  expect(await publishFiles(directory, toFiles({ a: "1" }))).toBe(true);
  expect(shown()).toEqual({ a: "1" });
  expect(visible()).toEqual(["a"]);
});

test("preserves the inodes of links and files if nothing changes", async () => {
  await publishFiles(directory, toFiles({ a: "1" }));
  const inode = (): number => statSync(at("a")).ino;
  const before = inode();
  expect(await publishFiles(directory, toFiles({ a: "1" }))).toBe(false);
  expect(inode()).toBe(before);
});

test("removes the leftovers of an interrupted publication", async () => {
  mkdirSync(at("..left"));
  symlinkSync("..left", at("..data_tmp"));
  mkdirSync(at("a/below"), { recursive: true });
  expect(await publishFiles(directory, toFiles({ a: "1" }))).toBe(true);
  expect(shown()).toEqual({ a: "1" });
  expect(readdirSync(directory)).toHaveLength(3); // ..data, the directory that it names, a
});

test("rethrows an error other than a missing file", async () => {
  writeFileSync(at("..data"), "");
  await expect(publishFiles(directory, toFiles({ a: "1" }))).rejects.toMatchObject({
    code: "EINVAL",
  });
});
