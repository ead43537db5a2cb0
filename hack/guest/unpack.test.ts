// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";

const SCRIPT = join(import.meta.dirname, "unpack");
const TEXT = "a kernel, or a module of one\n".repeat(1000);

const directory = mkdtempSync(join(tmpdir(), "unpack-"));
const file = join(directory, "packed");

afterAll(() => {
  rmSync(directory, { recursive: true });
});

function packBy(...argv: readonly [string, ...string[]]): Buffer {
  const [program, ...args] = argv;
  return execFileSync(program, args, { input: TEXT });
}

test.each([
  { name: "gzip", given: gzipSync(TEXT) },
  { name: "xz", given: packBy("xz", "-c") },
  { name: "lz4 -l (the kernel's legacy format)", given: packBy("lz4", "-lc") },
  { name: "lz4", given: packBy("lz4", "-c") },
  { name: "zstd", given: zstdCompressSync(TEXT) },
  { name: "nothing", given: Buffer.from(TEXT) },
])("unpacks a file that $name packed", ({ given }) => {
  writeFileSync(file, given);
  expect(execFileSync(SCRIPT, [file], { encoding: "utf8" })).toBe(TEXT);
});

test("names a format whose unpacker is not installed and prints nothing", () => {
  writeFileSync(file, Buffer.from("425a6839314159265359", "hex"));
  const { status, stdout, stderr } = spawnSync(SCRIPT, [file], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  expect(stderr).toContain("packed with bzip2, lzma or lzo");
});
