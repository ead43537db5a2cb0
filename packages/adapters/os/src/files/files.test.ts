// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statfsSync,
  statSync,
  watch,
} from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeFilesContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createFiles } from "./files.ts";

let files = createFiles();
let directory = "";

beforeEach(() => {
  files = createFiles();
  directory = mkdtempSync(join(tmpdir(), "patchbay-files-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** A promise of the next call of `changed`, at most two seconds away. */
function nextChange(): { changed: () => void; next: () => Promise<void> } {
  let waiting = Promise.withResolvers<undefined>();
  return {
    changed: () => {
      waiting.resolve(undefined);
    },
    next: async () => {
      const late = AbortSignal.timeout(2000);
      late.onabort = () => {
        waiting.reject(new Error("no change was told"));
      };
      await waiting.promise;
      late.onabort = null;
      waiting = Promise.withResolvers<undefined>();
    },
  };
}

describeFilesContract("a disk", () =>
  Promise.resolve({ files, directory, close: () => Promise.resolve() }),
);

describe("files", () => {
  test("an atomic write replaces the text, preserves the mode and removes its temporary file", async () => {
    const path = join(directory, "state.json");
    await files.writeAtomic(path, "one", 0o600);
    await files.writeAtomic(path, "two", 0o600);
    expect(await files.readText(path)).toBe("two");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(directory)).toEqual(["state.json"]);
  });

  test("a write into a missing directory fails with a code and leaves nothing", async () => {
    const path = join(directory, "none", "file");
    await expect(files.writeAtomic(path, "text")).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: {
        call: "write",
        path,
        errno: "ENOENT",
        reason: expect.stringContaining("open") as string,
      },
    });
    expect(readdirSync(directory)).toEqual([]);
  });

  test("a write onto a directory fails and removes its temporary file", async () => {
    await files.ensureDirectory(join(directory, "taken", "inner"));
    await expect(files.writeAtomic(join(directory, "taken"), "text")).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
    });
    expect(readdirSync(directory)).toEqual(["taken"]);
  });

  test("concurrent writes of one file use separate temporary files", async () => {
    const path = join(directory, "file");
    await Promise.all(["a", "b", "c", "d"].map((text) => files.writeAtomic(path, text)));
    expect(["a", "b", "c", "d"]).toContain(await files.readText(path));
    expect(readdirSync(directory)).toEqual(["file"]);
  });

  test("replaces a temporary file that an earlier process with this PID left", async () => {
    const path = join(directory, "file");
    const names: string[] = [];
    const watcher = watch(directory, (_event, name) => names.push(String(name)));
    await files.writeAtomic(path, "one");
    const temporary = await vi.waitUntil(() => names.find((name) => name.endsWith(".tmp")));
    watcher.close();
    const [before, count = ""] = temporary.split("-");
    const next = `${before ?? ""}-${String(Number.parseInt(count) + 1)}.tmp`;
    await writeFile(join(directory, next), "left by an earlier process");
    await files.writeAtomic(path, "two");
    expect(await files.readText(path)).toBe("two");
    expect(readdirSync(directory)).toEqual(["file"]);
  });

  test("a write leaves no descriptor open", async () => {
    await files.writeAtomic(join(directory, "file"), "text");
    const open = readdirSync("/proc/self/fd").flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/self/fd/${fd}`)];
      } catch {
        return [];
      }
    });
    expect(open.filter((target) => target.startsWith(directory))).toEqual([]);
  });

  test("lists names in order", async () => {
    const names = Array.from({ length: 20 }, (_, index) => String(10 + index));
    for (const name of names.toReversed()) mkdirSync(join(directory, name));
    mkdirSync(join(directory, "5"));
    expect(await files.list(directory)).toEqual([...names, "5"]);
  });

  test("free space is a multiple of the file system's block size", async () => {
    const { sizeBytes, freeBytes } = await files.readSpace(directory);
    const { bsize } = statfsSync(directory);
    expect(freeBytes % bsize).toBe(0);
    expect(freeBytes).toBeGreaterThan(0);
    expect(freeBytes).toBeLessThanOrEqual(sizeBytes);
  });

  test.each(["readText", "list", "exists"] as const)(
    "%s fails for a name that the kernel rejects",
    async (method) => {
      await expect(files[method]("/a".repeat(3000))).rejects.toMatchObject({
        code: "OS_FILE_FAILED",
        details: { errno: "ENAMETOOLONG" },
      });
    },
  );

  test("a dangling symbolic link exists", async () => {
    await symlink("/nowhere", join(directory, "link"));
    expect(await files.exists(join(directory, "link"))).toBe(true);
    expect(await files.exists(join(directory, "none"))).toBe(false);
  });
});

/** Makes a directory in a directory and so on: `levels` of them, with names of 200 letters. */
function makeDeepTree(top: string, levels: number): void {
  const script = `chdir $ARGV[0] or die; my $name = "d" x 200;
    for (1..$ARGV[1]) { mkdir $name or die; chdir $name or die }
    symlink "/etc", "out" or die; mkdir "wide" or die; mkdir "wide/.1" or die`;
  execFileSync("perl", ["-e", script, top, String(levels)]);
}

describe("removal of foreign files", () => {
  test("removes a tree with paths beyond the kernel's limit, but no targets of its links", async () => {
    const tree = join(directory, "tree");
    mkdirSync(tree);
    makeDeepTree(tree, 60); // 12,000 letters; PATH_MAX is 4,096
    await files.remove(tree);
    expect(readdirSync(directory)).toEqual([]);
    expect(readdirSync("/etc")).toContain("passwd");
  });
});

describe("watching a directory", () => {
  test("follows a directory that is created later, deleted and recreated", async () => {
    const abort = new AbortController();
    const { changed, next } = nextChange();
    const late = join(directory, "a", "b");
    files.watchDirectory(late, changed, abort.signal);
    await files.ensureDirectory(late);
    await next();
    await writeFile(join(late, "one"), "");
    await next();
    await files.remove(join(directory, "a"));
    await next();
    await files.ensureDirectory(late);
    await next();
    await writeFile(join(late, "two"), "");
    await next();
    abort.abort();
    expect(await files.list(late)).toEqual(["two"]);
  });
});
