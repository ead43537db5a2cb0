// SPDX-License-Identifier: Apache-2.0
// Watches for a launcher's socket by inotify on the deepest existing directory of its path.
import { closeSync, constants, fstatSync, type FSWatcher, openSync, watch } from "node:fs";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { Throttle } from "../throttle.ts";
import { isRelevant, IrrelevantEventCounter } from "./watch-events.ts";

/** Path of which components may not exist yet and belong to a tenant. */
interface UntrustedPath {
  /** Existing directory that only root changes. */
  readonly podsDir: string;
  readonly names: readonly string[];
}

interface ExistingDirectory {
  readonly depth: number;
  readonly inode: bigint;
  /** Descriptor with O_PATH, which the caller closes. */
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
    return undefined; // It is missing or not a directory, so its parent is watched instead.
  }
}

class LauncherWatch {
  readonly #path: UntrustedPath;
  readonly #onChange: () => void;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #noise = new IrrelevantEventCounter();
  readonly #throttle = new Throttle();

  constructor(path: UntrustedPath, onChange: () => void) {
    this.#path = path;
    this.#onChange = onChange;
  }

  watchDeepest(): void {
    this.#noise.reset();
    let last: ExistingDirectory | undefined;
    // Each round goes at least one level deeper, unless the tree changes meanwhile, which triggers an event.
    for (let round = 0; round <= this.#path.names.length; round += 1) {
      const directory = findDeepestDirectory(this.#path);
      const isSame = directory.depth === last?.depth && directory.inode === last.inode;
      try {
        if (!isSame) this.#watch(directory);
      } finally {
        closeSync(directory.fd);
      }
      if (isSame) return;
      last = directory;
    }
  }

  close(): void {
    this.#stopWatching();
    clearTimeout(this.#timer);
  }

  #watch(directory: ExistingDirectory): void {
    this.#stopWatching();
    const expected = this.#path.names[directory.depth];
    // The watch uses the descriptor, so that a link in the directory's place is not followed.
    const watcher = watch(`/proc/self/fd/${String(directory.fd)}`, (event, name) => {
      if (watcher !== this.#watcher) return;
      this.#onEvent(isRelevant(event, name, expected));
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
    if (!isRelevantEvent && !this.#noise.countAndCheck()) return;
    this.#stopWatching();
    this.#pause(this.#throttle.nextMs());
    if (isRelevantEvent) this.#onChange();
  }

  /** Stops watching for `ms`, because a hostile launcher can rename files at any rate. Then reports one change. */
  #pause(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // Fails if inotify's limits were reached, or the directory of pods is gone.
      if (!this.#tryWatchDeepest()) this.#pause(this.#throttle.longMs);
      // Reports again, because a socket exists (bind) before its server listens (listen).
      this.#onChange();
    }, ms);
  }

  #tryWatchDeepest(): boolean {
    try {
      this.watchDeepest();
      return true;
    } catch {
      this.#stopWatching();
      return false; // A timer retries. The caller learns the reason when it opens the launcher.
    }
  }
}

/** Watches the path. @throws AppError with OS_FILE_FAILED, for example because inotify's limits are reached */
export function watchLauncherPath(
  path: UntrustedPath,
  onChange: () => void,
  signal: AbortSignal,
): void {
  if (signal.aborted) return;
  const launcherWatch = new LauncherWatch(path, onChange);
  try {
    launcherWatch.watchDeepest();
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
