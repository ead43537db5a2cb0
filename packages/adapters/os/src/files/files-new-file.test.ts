// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openNewFile } from "./files.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "new-file-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test("creates a new file for its owner only, and does not change an existing file", async () => {
  const path = join(directory, "a.pcap");
  await pipeline(Readable.from(["one", "two"]), openNewFile(path));
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const again = pipeline(Readable.from(["three"]), openNewFile(path));
  await expect(again).rejects.toMatchObject({ code: "EEXIST" });
  expect(readFileSync(path, "utf8")).toBe("onetwo");
});
