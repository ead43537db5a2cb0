// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { beforeEach, expect, test, vi } from "vitest";
import { readFields } from "./json.ts";
import { isMarked, markDirectory, rejectForeignFiles } from "./ownership.ts";
import { listDirectories, buildPaths } from "./paths.ts";

const paths = buildPaths("/data");
let files: FakeFiles;

beforeEach(() => {
  files = createFakeFiles();
});

async function expectMayBecomeOurs(): Promise<void> {
  await expect(rejectForeignFiles(files, paths)).resolves.toBeUndefined();
}

test("a directory is marked once, and what is chosen stays chosen", async () => {
  await markDirectory(files, paths);
  expect(isMarked(await readFields(files, paths.settings))).toBe(true);
  const text = '{"kind":"PatchbayStandalone","apiPort":7443}';
  await files.writeAtomic(paths.settings, text);
  await markDirectory(files, paths);
  expect(await files.readText(paths.settings)).toBe(text);
});

test("one that is not there, or is a file system of its own, may become ours", async () => {
  await expectMayBecomeOurs();
  await files.ensureDirectory(join(paths.dataDir, "lost+found"));
  await expectMayBecomeOurs();
});

test("what died before the mark is ours", async () => {
  for (const [path] of listDirectories(paths)) await files.ensureDirectory(path);
  for (const path of [paths.kubeconfig, paths.store, `${paths.settings}.12-1.tmp`]) {
    await files.writeAtomic(path, "");
  }
  await expectMayBecomeOurs();
});

test("a directory with somebody else's files is refused, by name, until it is marked", async () => {
  await files.ensureDirectory(paths.pods);
  await files.writeAtomic(join(paths.dataDir, "photographs/one"), "");
  await expect(rejectForeignFiles(files, paths)).rejects.toMatchObject({
    code: "STANDALONE_NOT_OURS",
    message: expect.stringContaining("contains photographs") as string,
  });
  await markDirectory(files, paths);
  await expectMayBecomeOurs();
});

test("where a mark comes while it is looked, what is beside it is ours", async () => {
  vi.spyOn(files, "list").mockImplementationOnce(async () => {
    await markDirectory(files, paths);
    return ["cache"];
  });
  await expectMayBecomeOurs();
});
