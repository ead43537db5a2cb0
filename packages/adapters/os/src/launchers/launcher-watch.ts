// SPDX-License-Identifier: Apache-2.0
// Watches for a launcher's socket with inotify, in the deepest existing directory of the socket's path.
import { closeSync, constants, fstatSync, type FSWatcher, openSync, watch } from "node:fs";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { Throttle } from "../throttle.ts";
import { isRelevant, IrrelevantEventCounter } from "./watch-events.ts";

/** Path whose components may be missing or controlled by a tenant. */
interface UntrustedPath {
  /** Must be an existing directory that other users cannot replace, because symbolic links in this path are followed. */
  readonly podsDir: string;
  readonly names: readonly string[];
}

interface ExistingDirectory {
  readonly depth: number;
  readonly inode: bigint;
  /** Descriptor with O_PATH, which the caller must close. */
  readonly fd: number;
}

function findDeepestDirectory(path: UntrustedPath): ExistingDirectory {
  const root = openSync(path.podsDir, constants.O_RDONLY | constants.O_DIRECTORY);
  for (let depth = path.names.length - 1; depth > 0; depth -= 1) {
    const fd = tryOpen(root, path.names.slice(0, depth).join("/"));
    if (fd !== undefined) {
      closeSync(root);
      return { depth, fd, inode: fstatSync(fd, { bigint: true }).ino };
    }
  }
  return { depth: 0, fd: root, inode: fstatSync(root, { bigint: true }).ino };
}

function tryOpen(root: number, path: string): number | undefined {
  try {
    return osNative().openBeneath(root, path, "directory");
  } catch {
    return undefined; // The caller tries the parent directory next.
  }
}

class LauncherWatch {
  readonly #path: UntrustedPath;
  readonly #onChange: () => void;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #irrelevantEvents = new IrrelevantEventCounter();
  readonly #throttle = new Throttle();

  constructor(path: UntrustedPath, onChange: () => void) {
    this.#path = path;
    this.#onChange = onChange;
  }

  watchNearestExisting(): void {
    this.#irrelevantEvents.reset();
    let lastDirectory: ExistingDirectory | undefined;
    // A deeper directory may have been created before the watch began, so the loop repeats until nothing changes.
    for (let round = 0; round <= this.#path.names.length; round += 1) {
      const directory = findDeepestDirectory(this.#path);
      const isUnchanged =
        directory.depth === lastDirectory?.depth && directory.inode === lastDirectory.inode;
      try {
        if (!isUnchanged) this.#watch(directory);
      } finally {
        closeSync(directory.fd);
      }
      if (isUnchanged) return;
      lastDirectory = directory;
    }
  }

  close(): void {
    this.#stopWatching();
    clearTimeout(this.#timer);
  }

  #watch(directory: ExistingDirectory): void {
    this.#stopWatching();
    const expectedName = this.#path.names[directory.depth];
    // The descriptor's path refers to the checked directory, even if the launcher replaces that directory with a symbolic link.
    const watcher = watch(`/proc/self/fd/${String(directory.fd)}`, (event, name) => {
      if (watcher !== this.#watcher) return;
      this.#onEvent(isRelevant(event, name, expectedName));
    });
    watcher.on("error", () => {
      if (watcher === this.#watcher) this.#onEvent(true);
    });
    this.#watcher = watcher;
  }

  #stopWatching(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #onEvent(isRelevantEvent: boolean): void {
    if (!isRelevantEvent && !this.#irrelevantEvents.countAndCheck()) return;
    this.#stopWatching();
    this.#pause(this.#throttle.nextMs());
    if (isRelevantEvent) this.#onChange();
  }

  /** Pauses the watch for `ms` milliseconds, because a hostile launcher can cause events at any rate. */
  #pause(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // If the new watch fails, for example because inotify's limits are reached, tries again after a long pause.
      if (!this.#tryWatchDeepest()) this.#pause(this.#throttle.longMs);
      // Reports the change a second time, because the server of a new socket may not have listened at the first report.
      this.#onChange();
    }, ms);
  }

  #tryWatchDeepest(): boolean {
    try {
      this.watchNearestExisting();
      return true;
    } catch {
      this.#stopWatching();
      return false; // The caller tries again later. If the failure persists, opening the launcher fails and reports the reason.
    }
  }
}

/** @throws AppError with OS_FILE_FAILED, for example if inotify's limits are reached */
export function watchLauncherPath(
  path: UntrustedPath,
  onChange: () => void,
  signal: AbortSignal,
): void {
  if (signal.aborted) return;
  const launcherWatch = new LauncherWatch(path, onChange);
  try {
    launcherWatch.watchNearestExisting();
  } catch (error) {
    launcherWatch.close();
    throw toFileError(error, "watch", `${path.podsDir}/${path.names.join("/")}`);
  }
  signal.addEventListener(
    "abort",
    () => {
      launcherWatch.close();
    },
    { once: true },
  );
}
