// SPDX-License-Identifier: Apache-2.0
// When do names in a directory change, also when the directory itself comes later or is made anew?
import { statSync, watch, type FSWatcher } from "node:fs";
import { dirname } from "node:path";
import { isMissing, toFileError } from "./file-errors.ts";

/** How often the tree may change while a watch is being placed, before that is an error. */
const PLACEMENTS_MAX = 100;

interface Place {
  readonly path: string;
  readonly inode: number;
}

function placeOf(path: string): Place | undefined {
  try {
    return { path, inode: statSync(path).ino };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

/** The directory, or the nearest one above it that exists: at the latest the root. */
function nearestPlace(directory: string): Place {
  return placeOf(directory) ?? nearestPlace(dirname(directory));
}

function isSamePlace(one: Place | undefined, other: Place): boolean {
  return one?.path === other.path && one.inode === other.inode;
}

class DirectoryWatch {
  readonly #directory: string;
  readonly #changed: () => void;
  #place: Place | undefined;
  #watcher: FSWatcher | undefined;

  constructor(directory: string, changed: () => void) {
    this.#directory = directory;
    this.#changed = changed;
  }

  /** Watches the directory, or what is nearest to it. */
  place(): void {
    for (let turn = 0; turn < PLACEMENTS_MAX; turn += 1) {
      const place = nearestPlace(this.#directory);
      if (isSamePlace(this.#place, place)) return;
      this.close();
      if (this.#watchPlace(place)) this.#place = place;
    }
    throw toFileError(new Error("the tree keeps changing"), "watch", this.#directory);
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#place = undefined;
  }

  #watchPlace(place: Place): boolean {
    try {
      this.#watcher = watch(place.path, (event) => {
        if (event === "rename") this.#onRename();
      });
      this.#watcher.on("error", () => {
        this.#onRename();
      });
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw toFileError(error, "watch", place.path);
    }
  }

  #onRename(): void {
    const before = this.#place;
    this.place();
    const isHere = this.#place?.path === this.#directory;
    const wasHere = before?.path === this.#directory;
    if (isHere || wasHere) this.#changed();
  }
}

/**
 * Calls `changed` after each change of names in `directory` until aborted. The directory may come, go and
 * be made anew meanwhile.
 * @throws AppError with OS_FILE_FAILED when it cannot be watched.
 */
export function watchDirectory(directory: string, changed: () => void, signal: AbortSignal): void {
  if (signal.aborted) return;
  const directoryWatch = new DirectoryWatch(directory, changed);
  directoryWatch.place();
  signal.addEventListener("abort", () => {
    directoryWatch.close();
  });
}
