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

test("marks a directory once, and preserves settings", async () => {
  await markDirectory(files, paths);
  expect(isMarked(await readFields(files, paths.settings))).toBe(true);
  const text = '{"kind":"PatchbayStandalone","apiPort":7443}';
  await files.writeAtomic(paths.settings, text);
  await markDirectory(files, paths);
  expect(await files.readText(paths.settings)).toBe(text);
});

test("accepts a missing directory and an empty file system", async () => {
  await expectMayBecomeOurs();
  await files.ensureDirectory(join(paths.dataDir, "lost+found"));
  await expectMayBecomeOurs();
});

test("accepts the files of a start that crashed before the marker", async () => {
  for (const [path] of listDirectories(paths)) await files.ensureDirectory(path);
  for (const path of [paths.kubeconfig, paths.store, `${paths.settings}.12-1.tmp`]) {
    await files.writeAtomic(path, "");
  }
  await expectMayBecomeOurs();
});

test("rejects a directory with foreign files, by name, until it is marked", async () => {
  await files.ensureDirectory(paths.pods);
  await files.writeAtomic(join(paths.dataDir, "photographs/one"), "");
  await expect(rejectForeignFiles(files, paths)).rejects.toMatchObject({
    code: "STANDALONE_NOT_OURS",
    message: expect.stringContaining("contains photographs") as string,
  });
  await markDirectory(files, paths);
  await expectMayBecomeOurs();
});

test("accepts files if the marker appears during the check", async () => {
  vi.spyOn(files, "list").mockImplementationOnce(async () => {
    await markDirectory(files, paths);
    return ["cache"];
  });
  await expectMayBecomeOurs();
});
