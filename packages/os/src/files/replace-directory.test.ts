// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { replaceDirectory } from "./replace-directory.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-replace-"));
  mkdirSync(join(directory, "from", "deep"), { recursive: true });
  writeFileSync(join(directory, "from", "deep", "kernel"), "new");
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe("replacing a directory", () => {
  test("copies the tree, and leaves nothing of the old one", async () => {
    mkdirSync(join(directory, "to"));
    writeFileSync(join(directory, "to", "stale"), "old");
    await replaceDirectory(join(directory, "from"), join(directory, "to"));
    await replaceDirectory(join(directory, "from"), join(directory, "to"));
    expect(readdirSync(join(directory, "to"))).toEqual(["deep"]);
    expect(readFileSync(join(directory, "to", "deep", "kernel"), "utf8")).toBe("new");
    expect(readdirSync(directory).sort()).toEqual(["from", "to"]);
  });

  test.each([{ name: "is not there" }, { name: "is a file" }])(
    "refuses a source that $name",
    async ({ name }) => {
      const from = join(directory, name);
      mkdirSync(join(directory, "to"));
      writeFileSync(join(directory, "is a file"), "");
      await expect(replaceDirectory(from, join(directory, "to"))).rejects.toMatchObject({
        code: "OS_PATH_REFUSED",
        details: { path: from },
      });
    },
  );
});
