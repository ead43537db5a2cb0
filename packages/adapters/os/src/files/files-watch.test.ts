// SPDX-License-Identifier: Apache-2.0
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { watchDirectory } from "./files.ts";

const WITHIN = { withinMs: 1000 };

let directory = "";
let changes = 0;
let stop = new AbortController();
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "watch-directory-"));
  changes = 0;
  stop = new AbortController();
});
afterEach(() => {
  stop.abort();
  rmSync(directory, { recursive: true });
});

function start(path: string): void {
  watchDirectory(path, () => (changes += 1), stop.signal);
}

/** Makes a change; by its end the watches that were placed before have received what this one receives. */
async function changeIn(path: string, change: () => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const later = watch(path, () => {
    resolve(undefined);
  });
  change();
  await promise;
  later.close();
}

describe("a watch of a directory", () => {
  test("reports a name that changes, without content", async () => {
    const file = join(directory, "file");
    writeFileSync(file, "");
    start(directory);
    await changeIn(directory, () => {
      appendFileSync(file, "text");
    });
    expect(changes).toBe(0);
    await changeIn(directory, () => {
      rmSync(file);
    });
    expect(changes).toBe(1);
  });

  test("does not report other names beside a missing parent", async () => {
    start(join(directory, "a/b"));
    await changeIn(directory, () => {
      mkdirSync(join(directory, "other"));
    });
    expect(changes).toBe(0);
    mkdirSync(join(directory, "a/b"), { recursive: true });
    await eventually(() => changes > 0, WITHIN);
  });

  test("follows the name to a new directory and stops watching the renamed one", async () => {
    const path = join(directory, "a");
    const renamed = join(directory, "renamed");
    mkdirSync(path);
    start(path);
    renameSync(path, renamed);
    mkdirSync(path);
    await eventually(() => changes > 0, WITHIN);
    const before = changes;
    await changeIn(renamed, () => {
      mkdirSync(join(renamed, "one"));
    });
    expect(changes).toBe(before);
    await changeIn(path, () => {
      mkdirSync(join(path, "one"));
    });
    expect(changes).toBe(before + 1);
  });

  test.each([
    {
      name: "starts",
      abort: () => {
        stop.abort();
        start(directory);
      },
    },
    {
      name: "changes",
      abort: () => {
        start(directory);
        stop.abort();
      },
    },
  ])("reports nothing when it is aborted before it $name", async ({ abort }) => {
    abort();
    await changeIn(directory, () => {
      mkdirSync(join(directory, "one"));
    });
    expect(changes).toBe(0);
  });

  test("fails for a path that the kernel rejects", () => {
    expect(() => {
      start(join(directory, "a".repeat(300)));
    }).toThrow(
      expect.objectContaining({
        code: "OS_FILE_FAILED",
        details: expect.objectContaining({ call: "stat", errno: "ENAMETOOLONG" }) as object,
      }) as Error,
    );
  });
});
