// SPDX-License-Identifier: Apache-2.0
// Follows a guest's console log by inotify.
import { closeSync, fstatSync, openSync, readSync, watch } from "node:fs";
import { dirname } from "node:path";
import { BUSY } from "./eventually.ts";

export interface WaitForLine {
  /** On an idle machine; a busy one gets {@link BUSY} times that. */
  readonly timeoutMs: number;
  /** Searches the whole log, not only new lines. */
  readonly fromStart?: boolean;
  /** Searches after this {@link GuestLog.position}. */
  readonly since?: number;
}

export interface GuestLog extends Disposable {
  /** All complete lines. */
  lines(): readonly string[];
  /** Number of lines, for `since`. */
  position(): number;
  /** The first matching line; rejects after `timeoutMs` with the last lines. */
  waitForLine(pattern: RegExp, options: WaitForLine): Promise<string>;
}

/** Reads what was appended since the last call. */
function createTail(path: string): () => string {
  let offset = 0;
  return () => {
    let fd: number;
    try {
      fd = openSync(path, "r");
    } catch {
      return "";
    }
    try {
      const { size } = fstatSync(fd);
      if (size < offset) offset = 0; // the guest was restarted
      const buffer = Buffer.alloc(size - offset);
      const length = readSync(fd, buffer, 0, buffer.length, offset);
      offset += length;
      return buffer.toString("latin1", 0, length);
    } finally {
      closeSync(fd);
    }
  };
}

/** Follows the log at `path`; the file may appear later, its directory must exist. */
export function followGuestLog(path: string): GuestLog {
  const lines: string[] = [];
  const waiters = new Set<() => void>();
  const readMore = createTail(path);
  let partial = "";
  const update = (): void => {
    const parts = (partial + readMore()).split(/\r?\n/);
    partial = parts.pop() ?? "";
    lines.push(...parts);
    for (const wake of [...waiters]) wake();
  };
  const watcher = watch(dirname(path), update);
  watcher.on("error", () => {
    watcher.close(); // the directory was deleted; waits end at their timeout
  });
  update();

  const waitForLine = (pattern: RegExp, options: WaitForLine): Promise<string> =>
    new Promise((resolve, reject) => {
      const timeoutMs = options.timeoutMs * BUSY;
      let next = options.fromStart === true ? 0 : (options.since ?? lines.length);
      const timer = setTimeout(() => {
        waiters.delete(look);
        const tail = lines.slice(-10).join("\n");
        reject(new Error(`no line ${String(pattern)} within ${String(timeoutMs)} ms:\n${tail}`));
      }, timeoutMs);
      const look = (): void => {
        const found = lines.slice(next).find((line) => pattern.test(line));
        next = lines.length;
        if (found === undefined) return;
        clearTimeout(timer);
        waiters.delete(look);
        resolve(found);
      };
      waiters.add(look);
      look();
    });
  return {
    lines: () => lines,
    position: () => lines.length,
    waitForLine,
    [Symbol.dispose]: () => {
      watcher.close();
    },
  };
}
