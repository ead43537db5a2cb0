// SPDX-License-Identifier: Apache-2.0
// Contract of Files, for the fake and for a machine.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Files } from "@patchbay/core/interfaces";

/** A file system with an empty directory. */
export interface FilesBench {
  readonly files: Files;
  /** Absolute path of the empty directory. */
  readonly directory: string;
  close(): Promise<void>;
}

/** Calls of a listener for which tests wait. */
class Calls {
  #next = Promise.withResolvers<undefined>();
  count = 0;

  readonly listener = (): void => {
    this.count += 1;
    this.#next.resolve(undefined);
  };

  /** Resolves at the next call; at once if the listener was called after the previous `next`. */
  async next(): Promise<void> {
    await this.#next.promise;
    this.#next = Promise.withResolvers();
  }
}

/** Defines tests named `Files: NAME`; each creates its own bench. */
export function describeFilesContract(name: string, make: () => Promise<FilesBench>): void {
  describe(`Files: ${name}`, () => {
    let bench: FilesBench;
    let files: Files;
    let directory: string;
    beforeEach(async () => {
      bench = await make();
      ({ files, directory } = bench);
    });
    afterEach(async () => {
      await bench.close();
    });

    test("a missing path has no text and no names, and does not exist", async () => {
      expect(await files.readText(`${directory}/none`)).toBeUndefined();
      expect(await files.readText(`${directory}/none/deeper`)).toBeUndefined();
      expect(await files.list(`${directory}/none`)).toEqual([]);
      expect(await files.exists(`${directory}/none`)).toBe(false);
    });

    test("a file has the text of the last write", async () => {
      await files.writeAtomic(`${directory}/state`, "one", 0o600);
      await files.writeAtomic(`${directory}/state`, "two", 0o600);
      expect(await files.readText(`${directory}/state`)).toBe("two");
      expect(await files.exists(`${directory}/state`)).toBe(true);
      expect(await files.list(directory)).toEqual(["state"]);
    });

    test("lists the names of files and directories of one directory in order", async () => {
      for (const each of ["b", "a"]) await files.writeAtomic(`${directory}/${each}`, "");
      await files.ensureDirectory(`${directory}/c/deeper`);
      expect(await files.list(directory)).toEqual(["a", "b", "c"]);
      expect(await files.list(`${directory}/c`)).toEqual(["deeper"]);
      expect(await files.list(`${directory}/c/deeper`)).toEqual([]);
    });

    test("does not change an existing directory", async () => {
      await files.ensureDirectory(`${directory}/c`);
      await files.writeAtomic(`${directory}/c/one`, "1");
      await files.ensureDirectory(`${directory}/c`);
      expect(await files.list(`${directory}/c`)).toEqual(["one"]);
    });

    test("removes a tree completely, and nothing beside it; removing it again succeeds", async () => {
      await files.ensureDirectory(`${directory}/tree/deep`);
      await files.writeAtomic(`${directory}/tree/deep/file`, "");
      await files.writeAtomic(`${directory}/tree-2`, "");
      await files.remove(`${directory}/tree`);
      await files.remove(`${directory}/tree`);
      expect(await files.exists(`${directory}/tree`)).toBe(false);
      expect(await files.readText(`${directory}/tree/deep/file`)).toBeUndefined();
      expect(await files.list(directory)).toEqual(["tree-2"]);
    });

    test("a file system has space, and no more free space than that", async () => {
      const { sizeBytes, freeBytes } = await files.readSpace(directory);
      expect(sizeBytes).toBeGreaterThan(0);
      expect(freeBytes).toBeLessThanOrEqual(sizeBytes);
    });

    test("a watch reports names that are created and deleted, until aborted", async () => {
      const abort = new AbortController();
      const calls = new Calls();
      files.watchDirectory(directory, calls.listener, abort.signal);
      await files.writeAtomic(`${directory}/one`, "");
      await calls.next();
      await files.remove(`${directory}/one`);
      await calls.next();
      abort.abort();
      const before = calls.count;
      const otherCalls = new Calls();
      const otherAbort = new AbortController();
      files.watchDirectory(directory, otherCalls.listener, otherAbort.signal);
      await files.writeAtomic(`${directory}/two`, "");
      await otherCalls.next();
      otherAbort.abort();
      expect(calls.count).toBe(before);
    });
  });
}
