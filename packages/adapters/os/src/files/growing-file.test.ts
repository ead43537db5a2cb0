// SPDX-License-Identifier: Apache-2.0
import { watch } from "node:fs";
import { appendFile, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  moveContent,
  openGrowingFile,
  renameFile,
  readFileSize,
  watchFile,
} from "./growing-file.ts";

const WITHIN = { withinMs: 5000 };

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "growing-"));
  path = join(directory, "log");
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

describe("a growing file", () => {
  test("is read from any offset to its current end", async () => {
    expect(await openGrowingFile(path)).toBeUndefined();
    await writeFile(path, "one two");
    const file = await openGrowingFile(path);
    expect((await file?.read(4, 2))?.toString()).toBe("tw");
    expect((await file?.read(4, 20))?.toString()).toBe("two");
    expect((await file?.read(7, 20))?.length).toBe(0);
    await appendFile(path, " three");
    expect((await file?.read(7, 20))?.toString()).toBe(" three");
    expect(await file?.readSize()).toBe(13);
    await file?.close();
    await expect(file?.read(0, 1)).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
    await expect(file?.readSize()).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
  });

  test("stays open unchanged when another file takes its name", async () => {
    await writeFile(path, "old");
    const file = await openGrowingFile(path);
    expect(await file?.isReplacedAt(path)).toBe(false);
    await rename(path, `${path}.1`);
    expect(await file?.isReplacedAt(path)).toBe(false); // nobody has it
    await writeFile(path, "new");
    expect(await file?.isReplacedAt(path)).toBe(true);
    expect((await file?.read(0, 3))?.toString()).toBe("old");
    await file?.close();
  });

  test("fails on reading if it is a directory", async () => {
    await writeFile(path, "");
    const file = await openGrowingFile(directory);
    await expect(file?.read(0, 1)).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
    await file?.close();
  });
});

describe("a watch of a file", () => {
  /** Writes a file; by its end the watches that were placed before have received what this one receives. */
  async function writeAndWait(file: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const later = watch(directory, () => {
      resolve(undefined);
    });
    await writeFile(file, "x");
    await promise;
    later.close();
  }

  test("reports writes to the file, but not to its neighbors, until it is aborted", async () => {
    const stop = new AbortController();
    let changes = 0;
    watchFile(path, () => (changes += 1), stop.signal);
    await writeAndWait(`${path}.other`);
    expect(changes).toBe(0);
    await writeFile(path, "x");
    await eventually(() => changes > 0, WITHIN);
    stop.abort();
    const before = changes;
    await writeAndWait(path);
    expect(changes).toBe(before);
  });

  test("that is aborted before it starts reports nothing", async () => {
    let changes = 0;
    watchFile(path, () => (changes += 1), AbortSignal.abort());
    await writeAndWait(path);
    expect(changes).toBe(0);
  });

  test("requires an existing directory", () => {
    const { signal } = new AbortController();
    expect(() => {
      watchFile(join(directory, "none/log"), () => undefined, signal);
    }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }));
  });
});

test("reads sizes and renames files", async () => {
  expect(await readFileSize(path)).toBeUndefined();
  await writeFile(path, "abc");
  expect(await readFileSize(path)).toBe(3);
  await renameFile(path, `${path}.1`);
  expect(await readFileSize(`${path}.1`)).toBe(3);
  await expect(renameFile(path, "/x")).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
});

describe("reports a name that the kernel rejects when the call is", () => {
  const long = "/a".repeat(3000);

  test.each([
    { name: "opening", call: "open", attempt: () => openGrowingFile(long) },
    { name: "reading the size", call: "stat", attempt: () => readFileSize(long) },
    {
      name: "comparing with an open file",
      call: "stat",
      attempt: async () => {
        const file = await openGrowingFile("/dev/null");
        try {
          return await file?.isReplacedAt(long);
        } finally {
          await file?.close();
        }
      },
    },
  ])("$name", async ({ call, attempt }) => {
    await expect(attempt()).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call, errno: "ENAMETOOLONG" },
    });
  });
});

test("moving the content of a file without end stops", async () => {
  // Its size is 0, each read is full, and it cannot be truncated.
  expect(() => {
    moveContent("/dev/zero", path, 10);
  }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }));
  await expect(readFileSize(path)).resolves.toBeUndefined();
});
