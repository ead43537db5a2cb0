// SPDX-License-Identifier: Apache-2.0
// When may a launcher's socket have come or gone? inotify on the deepest directory of its path that exists; no polling.
import { closeSync, constants, fstatSync, openSync, watch, type FSWatcher } from "node:fs";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { Throttle } from "../throttle.ts";
import { isRelevant, NoiseCounter } from "./watch-events.ts";

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
  #timer: NodeJS.Timeout | undefined;
  readonly #noise = new NoiseCounter();
  readonly #throttle = new Throttle();

  constructor(path: UntrustedPath, changed: () => void) {
    this.#path = path;
    this.#changed = changed;
  }

  /** Listens where it must be listened now. */
  place(): void {
    this.#noise.reset();
    let last: Place | undefined;
    // Each turn goes one level deeper at least, unless the tree changes meanwhile: then its event comes too.
    for (let turn = 0; turn <= this.#path.names.length; turn += 1) {
      const place = findPlace(this.#path);
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
    this.#deafen();
    clearTimeout(this.#timer);
  }

  #watch(place: Place): void {
    this.#deafen();
    const expected = this.#path.names[place.depth];
    // Through the descriptor: a link that is put in its place meanwhile is not followed.
    const watcher = watch(`/proc/self/fd/${String(place.fd)}`, (event, name) => {
      if (watcher !== this.#watcher) return;
      this.#hear(isRelevant(event, name, expected));
    });
    watcher.on("error", () => {
      if (watcher === this.#watcher) this.#hear(true);
    });
    this.#watcher = watcher;
  }

  #deafen(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #hear(isOurs: boolean): void {
    if (!isOurs && !this.#noise.isTooMuch()) return;
    this.#deafen();
    this.#rest(this.#throttle.nextMs());
    if (isOurs) this.#changed();
  }

  /** A hostile launcher can change names as fast as it likes: what happens meanwhile costs nothing, and is told as one change at its end. */
  #rest(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // Not placed: inotify's limits, or the directory of pods is gone.
      if (!this.#tryPlace()) this.#rest(this.#throttle.longMs);
      // Also of a socket that came just before: it is made (bind) before anybody listens on it (listen).
      this.#changed();
    }, ms);
  }

  #tryPlace(): boolean {
    try {
      this.place();
      return true;
    } catch {
      this.#deafen();
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
