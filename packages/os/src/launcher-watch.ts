// SPDX-License-Identifier: Apache-2.0
// When may a launcher's socket have come or gone? inotify on the deepest directory of its path that exists; no polling.
import { closeSync, constants, fstatSync, openSync, watch, type FSWatcher } from "node:fs";
import { toFileError } from "./file-errors.ts";
import { osNative } from "./native.ts";

/** At most one call in this time: a hostile launcher can change names as fast as it likes. */
const QUIET_MS = 50;

/** After this the watch is placed again when it could not be placed (inotify's limits, the directory of pods gone). */
const RETRY_MS = 1000;

/** A path whose parts may not exist yet, and that someone else controls. */
export interface UntrustedPath {
  /** Trusted, and there. */
  readonly podsDir: string;
  /** Names from there on; the last is the file's. */
  readonly names: readonly string[];
}

/** The deepest directory of the path that exists. */
interface Place {
  readonly depth: number;
  readonly inode: bigint;
  /** Open (O_PATH); the finder closes it. */
  readonly fd: number;
}

function findPlace(path: UntrustedPath): Place {
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
    return undefined; // Missing or not a directory: what is above it is watched instead.
  }
}

class LauncherWatch {
  readonly #path: UntrustedPath;
  readonly #changed: () => void;
  #watcher: FSWatcher | undefined;
  #depth = -1;
  #inode = 0n;
  #timer: NodeJS.Timeout | undefined;
  #isPending = false;

  constructor(path: UntrustedPath, changed: () => void) {
    this.#path = path;
    this.#changed = changed;
  }

  /** Moves the watch to where it must be now. */
  place(): void {
    // Each turn goes one level deeper at least, unless the tree changes meanwhile: then its event comes too.
    for (let turn = 0; turn <= this.#path.names.length; turn += 1) {
      const place = findPlace(this.#path);
      const isSame = place.depth === this.#depth && place.inode === this.#inode;
      try {
        if (!isSame) this.#watch(place);
      } finally {
        closeSync(place.fd);
      }
      if (isSame) return;
    }
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearTimeout(this.#timer);
  }

  #watch(place: Place): void {
    this.#watcher?.close();
    const expected = this.#path.names[place.depth];
    // Through the descriptor: a link that is put in its place meanwhile is not followed.
    this.#watcher = watch(`/proc/self/fd/${String(place.fd)}`, (event, name) => {
      if (event !== "rename") return;
      // The directory itself is gone; its event has the name of the descriptor. A new one may have its inode number.
      const isGone = name === null || /^\d+$/.test(name);
      if (isGone) this.#depth = -1;
      if (isGone || name === expected) this.#wake();
    });
    this.#watcher.on("error", () => {
      this.#depth = -1;
      this.#wake();
    });
    this.#depth = place.depth;
    this.#inode = place.inode;
  }

  #wake(): void {
    if (this.#timer !== undefined) {
      this.#isPending = true;
      return;
    }
    this.#isPending = !this.#tryPlace();
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        if (this.#isPending) this.#wake();
        // A socket is made (bind) before anybody listens on it (listen), and only the first is seen: told once more.
        else if (this.#depth === this.#path.names.length - 1) this.#changed();
      },
      this.#isPending ? RETRY_MS : QUIET_MS,
    );
    this.#changed();
  }

  #tryPlace(): boolean {
    try {
      this.place();
      return true;
    } catch {
      this.#depth = -1;
      return false; // Tried again; whoever is told of the change finds out what is wrong when it opens the launcher.
    }
  }
}

/**
 * Calls `changed` when the file may have come or gone, until aborted.
 * @throws AppError with OS_FILE_FAILED when it cannot be watched, for example when inotify's limits are reached.
 */
export function watchLauncherPath(
  path: UntrustedPath,
  changed: () => void,
  signal: AbortSignal,
): void {
  if (signal.aborted) return;
  const launcherWatch = new LauncherWatch(path, changed);
  try {
    launcherWatch.place();
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
