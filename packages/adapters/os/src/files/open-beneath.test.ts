// SPDX-License-Identifier: Apache-2.0
import {
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDirectory } from "./open-beneath.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "open-directory-"));
  mkdirSync(join(directory, "one"));
  writeFileSync(join(directory, "file"), "");
  symlinkSync("one", join(directory, "link"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

test.each(["", "//"])(
  "a directory stays open until it is closed, also with a path after %j",
  (before) => {
    const path = join(directory, "one");
    const opened = openDirectory(`${before}${path}`);
    expect(opened.inode).toBe(statSync(path, { bigint: true }).ino.toString());
    expect(fstatSync(opened.fd).isDirectory()).toBe(true);
    opened.close();
    expect(() => fstatSync(opened.fd)).toThrow("EBADF");
  },
);

test("opens the root directory", () => {
  const opened = openDirectory("/");
  expect(fstatSync(opened.fd).ino).toBe(statSync("/").ino);
  opened.close();
});

test("leaves no other descriptor open", () => {
  const before = readdirSync("/proc/self/fd");
  openDirectory(directory).close();
  expect(() => openDirectory(join(directory, "none"))).toThrow();
  expect(readdirSync("/proc/self/fd")).toEqual(before);
});

test.each([
  { name: "a symbolic link in its path", end: "link/deep", errno: "ELOOP" },
  { name: "a symbolic link instead of it", end: "link", errno: "ENOTDIR" },
  { name: "a file instead of it", end: "file", errno: "ENOTDIR" },
])("rejects a directory with $name", ({ end, errno }) => {
  const path = join(directory, end);
  expect(() => openDirectory(path)).toThrow(
    expect.objectContaining({
      code: "OS_PATH_REFUSED",
      details: {
        path,
        reason: `the path has a symbolic link or a file where a directory must be (${errno})`,
      },
      cause: expect.objectContaining({ code: errno }) as Error,
    }) as Error,
  );
});

test("reports a missing directory as a file error", () => {
  expect(() => openDirectory(join(directory, "none"))).toThrow(
    expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error,
  );
});
