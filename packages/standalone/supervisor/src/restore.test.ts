// SPDX-License-Identifier: Apache-2.0
// tests/contract/apiserver restores whole backups.
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { restore } from "./restore.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "restore-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test.each([
  { name: "that is missing", text: undefined, reason: "there is no such file" },
  { name: "that is not a valid backup", text: "{}", reason: expect.any(String) as string },
])("rejects a backup $name with its path", async ({ text, reason }) => {
  const file = join(directory, "backup.json");
  if (text !== undefined) writeFileSync(file, text);
  await expect(restore({ dataDir: join(directory, "data"), file })).rejects.toMatchObject({
    code: "STORE_BACKUP_INVALID",
    details: { path: file, reason },
  });
});

test("only root can read the directory of the objects", async () => {
  const file = join(directory, "backup.json");
  writeFileSync(file, "{}");
  const dataDir = join(directory, "data");
  await restore({ dataDir, file }).catch(() => undefined);
  expect(statSync(join(dataDir, "apiserver")).mode & 0o777).toBe(0o700);
});

test("does not restore into the directory of a newer version", async () => {
  const file = join(directory, "backup.json");
  writeFileSync(file, "{}");
  writeFileSync(join(directory, "standalone.json"), '{"kind":"PatchbayStandalone","format":2}');
  await expect(restore({ dataDir: directory, file })).rejects.toMatchObject({
    code: "FORMAT_TOO_NEW",
    details: { path: directory, found: "2", supported: 1 },
  });
});
