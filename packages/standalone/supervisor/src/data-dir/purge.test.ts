// SPDX-License-Identifier: Apache-2.0
// tests/contract/standalone/purge.test.ts has real mounts, and a purge that is killed.
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { markDirectory, purge, rejectUnmarked } from "./ownership.ts";
import { buildPaths } from "./paths.ts";

const paths = buildPaths("/data");
let files: FakeFiles;
let removed: string[];
let lines: string[];

beforeEach(async () => {
  files = createFakeFiles();
  removed = [];
  lines = [];
  await markDirectory(files, paths);
  for (const file of ["pki/ca.crt", "run/supervisor.json", "lost+found/x"]) {
    await files.writeAtomic(`/data/${file}`, "");
  }
  await files.writeAtomic("/database/file", "theirs");
});

function mount(...points: readonly string[]): Promise<void> {
  const text = points.map((point) => `36 35 98:0 / ${point} rw - ext4 /dev/sda rw\n`).join("");
  return files.writeAtomic("/proc/self/mountinfo", text);
}

function run(): Promise<void> {
  const recording = Object.assign(Object.create(files) as FakeFiles, {
    remove: (path: string) => {
      removed.push(path);
      return files.remove(path);
    },
    readText: (path: string) => files.readText(path),
    list: (path: string) => files.list(path),
  });
  return purge({ files: recording, paths, print: (line) => lines.push(line) });
}

test("deletes a directory with all of its contents, the marker last", async () => {
  await mount("/", "/database");
  await run();
  expect(removed).toEqual(["/data/pki", "/data/run", "/data/standalone.json", "/data"]);
  expect(files.paths).toEqual(["/database/file", "/proc/self/mountinfo"]);
  expect(lines).toEqual(["/data is deleted"]);
});

test("empties a mount point without deleting it or lost+found", async () => {
  await mount("/", "/data");
  await run();
  expect(removed).toEqual(["/data/pki", "/data/run", "/data/standalone.json"]);
  expect(await files.list("/data")).toEqual(["lost+found"]);
  expect(lines).toEqual(["/data is empty; it is a mount point and is not deleted"]);
});

test("does not change a directory that contains a mount", async () => {
  await mount("/", "/data/claims/one");
  await expect(run()).rejects.toMatchObject({
    code: "STANDALONE_NOT_OURS",
    details: { dataDir: "/data", reason: "/data/claims/one is mounted in it" },
  });
  expect([removed, lines]).toEqual([[], []]);
});

test("a host without a mount list has no mounts", async () => {
  await run();
  expect(lines).toEqual(["/data is deleted"]);
});

test("rejects a directory without a marker", async () => {
  await expect(rejectUnmarked({ files, paths })).resolves.toBeUndefined();
  await files.writeAtomic(paths.settings, '{"kind":"Other"}');
  await expect(rejectUnmarked({ files, paths })).rejects.toMatchObject({
    code: "STANDALONE_NOT_OURS",
    details: { dataDir: "/data", reason: "it has no standalone.json of Patchbay" },
  });
});
