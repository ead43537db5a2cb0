// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { afterEach, expect, test } from "vitest";
import { readFields } from "./json.ts";
import { isOurs, takeDirectory } from "./ours.ts";
import { pathsOf } from "./paths.ts";

const files = createFiles();
const paths = pathsOf(join(tmpdir(), `ours-${randomUUID()}`));

afterEach(async () => {
  await files.remove(paths.dataDir);
});

test("a new directory is marked, and stays ours with whatever comes into it", async () => {
  await takeDirectory(files, paths);
  expect(isOurs(await readFields(files, paths.settings))).toBe(true);
  await files.ensureDirectory(paths.pods);
  await takeDirectory(files, paths);
});

test("so is one that is empty, or a file system of its own", async () => {
  await files.ensureDirectory(join(paths.dataDir, "lost+found"));
  await takeDirectory(files, paths);
  expect(isOurs(await readFields(files, paths.settings))).toBe(true);
});

test("what is chosen stays chosen", async () => {
  const text = '{"kind":"PatchbayStandalone","apiPort":7443}';
  await files.ensureDirectory(paths.dataDir);
  await files.writeAtomic(paths.settings, text);
  await takeDirectory(files, paths);
  expect(await files.readText(paths.settings)).toBe(text);
});

test("a directory with somebody else's files is not taken: it would go with the machine", async () => {
  await files.ensureDirectory(join(paths.dataDir, "photographs"));
  await expect(takeDirectory(files, paths)).rejects.toMatchObject({ code: "STANDALONE_NOT_OURS" });
  expect(await files.list(paths.dataDir)).toEqual(["photographs"]);
});
