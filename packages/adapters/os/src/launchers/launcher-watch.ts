// SPDX-License-Identifier: Apache-2.0
// Watches for a launcher's socket by inotify on the deepest existing directory of its path.
import { closeSync, constants, fstatSync, type FSWatcher, openSync, watch } from "node:fs";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { Throttle } from "../throttle.ts";
import { isRelevant, NoiseCounter } from "./watch-events.ts";

/** A path whose components may not exist yet and belong to a tenant. */
interface UntrustedPath {
  /** Exists, and only root changes it. */
  readonly podsDir: string;
  readonly names: readonly string[];
}

interface ExistingDirectory {
  readonly depth: number;
  readonly inode: bigint;
  /** Opened with O_PATH; the caller closes it. */
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
    return undefined; // Missing or not a directory: its parent is watched instead.
  }
}

class LauncherWatch {
  readonly #path: UntrustedPath;
  readonly #changed: () => void;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #noise = new NoiseCounter();
  readonly #throttle = new Throttle();

  constructor(path: UntrustedPath, changed: () => void) {
    this.#path = path;
    this.#changed = changed;
  }

  watchDeepest(): void {
    this.#noise.reset();
    let last: ExistingDirectory | undefined;
    // Each turn goes at least one level deeper, unless the tree changes meanwhile, which triggers an event.
    for (let round = 0; round <= this.#path.names.length; round += 1) {
      const place = findDeepestDirectory(this.#path);
      const isSame = place.depth === last?.depth && place.inode === last.inode;
      try {
        if (!isSame) this.#watch(place);
      } finally {
        closeSync(place.fd);
      }
      if (isSame) return;
      last = place;
    }
  }

  close(): void {
    this.#stopWatching();
    clearTimeout(this.#timer);
  }

  #watch(place: ExistingDirectory): void {
    this.#stopWatching();
    const expected = this.#path.names[place.depth];
    // Watches through the descriptor, so that a link put in the directory's place is not followed.
    const watcher = watch(`/proc/self/fd/${String(place.fd)}`, (event, name) => {
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

  #onEvent(isOurs: boolean): void {
    if (!isOurs && !this.#noise.countAndCheck()) return;
    this.#stopWatching();
    this.#pause(this.#throttle.nextMs());
    if (isOurs) this.#changed();
  }

  /** A hostile launcher can rename files at any rate. Events during the pause are reported as one change at its end. */
  #pause(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // inotify's limits were reached, or the directory of pods is gone.
      if (!this.#tryWatchDeepest()) this.#pause(this.#throttle.longMs);
      // Reports again, because a socket exists (bind) before its server listens (listen).
      this.#changed();
    }, ms);
  }

  #tryWatchDeepest(): boolean {
    try {
      this.watchDeepest();
      return true;
    } catch {
      this.#stopWatching();
      return false; // Retried later. The caller learns the reason when it opens the launcher.
    }
  }
}

/** @throws AppError with OS_FILE_FAILED, for example because inotify's limits are reached */
export function watchLauncherPath(
  path: UntrustedPath,
  changed: () => void,
  signal: AbortSignal,
): void {
  if (signal.aborted) return;
  const launcherWatch = new LauncherWatch(path, changed);
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
