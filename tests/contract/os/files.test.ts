// SPDX-License-Identifier: Apache-2.0
// Deletion of files that only root can create: immutable ones and mounts.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const files = createFiles();
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-files-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe("removing files created by root", () => {
  test("removes immutable and append-only files", async () => {
    const tree = join(directory, "tree");
    mkdirSync(join(tree, "fixed", "inner"), { recursive: true });
    writeFileSync(join(tree, "fixed", "inner", "log"), "");
    execFileSync("chattr", ["+a", join(tree, "fixed", "inner", "log")]);
    execFileSync("chattr", ["+i", join(tree, "fixed", "inner"), join(tree, "fixed")]);
    await files.remove(tree);
    expect(readdirSync(directory)).toEqual([]);
  });

  test("a mount inside the tree is an error, and its files are preserved", async () => {
    const mount = join(directory, "tree", "mount");
    mkdirSync(mount, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "none", mount]);
    try {
      writeFileSync(join(mount, "kept"), "");
      for (const path of [mount, join(directory, "tree")]) {
        await expect(files.remove(path)).rejects.toMatchObject({
          code: "OS_FILE_FAILED",
          details: { call: "remove", path, errno: "EBUSY" },
        });
      }
      expect(readdirSync(mount)).toEqual(["kept"]);
    } finally {
      execFileSync("umount", [mount]);
    }
  });
});
