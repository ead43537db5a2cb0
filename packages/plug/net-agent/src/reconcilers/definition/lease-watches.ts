// SPDX-License-Identifier: Apache-2.0
// When is an address given back? The directories of networks that have none left are watched, and of no others.
import type { Files } from "@patchbay/core/ports";

/** What is watched, by definition. */
export interface LeaseWatches {
  /** These directories and no others from now on; none: nothing any more. */
  set(key: string, directories: readonly string[]): void;
}

interface Watched {
  readonly directories: string;
  readonly stop: AbortController;
}

/** Calls `changed` with the definition of a directory in which something came or went, until the signal is aborted. */
export function watchLeases(
  files: Pick<Files, "watchDirectory">,
  changed: (key: string) => void,
  signal: AbortSignal,
): LeaseWatches {
  const watched = new Map<string, Watched>();
  return {
    set: (key, directories) => {
      const text = JSON.stringify(directories);
      const before = watched.get(key);
      if ((before?.directories ?? "[]") === text) return;
      before?.stop.abort();
      watched.delete(key);
      if (directories.length === 0) return;
      const stop = new AbortController();
      watched.set(key, { directories: text, stop });
      for (const directory of directories) {
        const tell = (): void => {
          changed(key);
        };
        files.watchDirectory(directory, tell, AbortSignal.any([stop.signal, signal]));
      }
    },
  };
}
