// SPDX-License-Identifier: Apache-2.0
// Wakes a key when a process of it ends or its directory changes.
import { waitForProcessEnd, type ProcessName } from "@patchbay/os";
import type { Files, Logger } from "@patchbay/ports";

/** What is being watched, for each key. */
export interface ProcessEnds {
  /** Wakes `key` once when the process has ended; watched already is success. */
  watchProcess(key: string, process: ProcessName): void;
  /** Wakes `key` whenever names in the directory change; watched already is success. */
  watchDirectory(key: string, directory: string): void;
  /** Ends the watches of a key. */
  forget(key: string): void;
}

/** Watches until `signal` is aborted. */
export function createProcessEnds(
  deps: { readonly files: Files; readonly log: Logger; readonly wake: (key: string) => void },
  signal: AbortSignal,
): ProcessEnds {
  const watches = new Map<string, { readonly stop: AbortController; readonly of: Set<string> }>();
  const begin = (key: string, what: string): AbortSignal | undefined => {
    const entry = watches.get(key) ?? { stop: new AbortController(), of: new Set<string>() };
    watches.set(key, entry);
    if (entry.of.has(what)) return undefined;
    entry.of.add(what);
    return AbortSignal.any([signal, entry.stop.signal]);
  };
  return {
    watchProcess: (key, { pid, startTime }) => {
      const until = begin(key, `${String(pid)} ${startTime}`);
      if (until === undefined) return;
      waitForProcessEnd(pid, startTime, until).then(
        () => {
          deps.wake(key);
        },
        (error: unknown) => {
          if (!until.aborted) deps.log.error("process cannot be watched", { pid, err: error });
        },
      );
    },
    watchDirectory: (key, directory) => {
      const until = begin(key, directory);
      if (until === undefined) return;
      deps.files.watchDirectory(
        directory,
        () => {
          deps.wake(key);
        },
        until,
      );
    },
    forget: (key) => {
      watches.get(key)?.stop.abort();
      watches.delete(key);
    },
  };
}
