// SPDX-License-Identifier: Apache-2.0
// The port VhostSockets on this machine. Launchers can write to their own volume and to their directories of sockets:
// what lies there is opened through no symbolic link, judged, and changed by its descriptor alone.
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  type BigIntStats,
} from "node:fs";
import { EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME, VHOST_USER_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import { socketLinkOf, type SeenSocket, type VhostSocket } from "@patchbay/core";
import type { VhostSockets } from "@patchbay/core/ports";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import { watchLauncherPath } from "./launcher-watch.ts";

/** What {@link createVhostSockets} needs. */
export interface VhostSocketsOptions {
  /** Directory of pods, for example `/var/lib/kubelet/pods`. */
  readonly podsDir: string;
  /** What the node's `/run` is from here: `/run`, or for example `/proc/1/root/run` in a pod. */
  readonly runDir: string;
  /** User and group of all launchers. */
  readonly uid: number;
}

/** The group may connect, which is to write. Source: unix(7). */
const GROUP_ACCESS = 0o060;
const PERMISSIONS = 0o7777;

/** A symbolic link, a way out, a file where a directory must be. Source: openat2(2). */
const REFUSED: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

/** Node's functions follow the kernel's own link to the open file. */
function pathOf(fd: number): string {
  return `/proc/self/fd/${String(fd)}`;
}

/** What is above it may not be there yet. */
function belowRun(path: string): string {
  if (path.startsWith(`${VHOST_USER_DIR}/`)) return path.slice("/run/".length);
  throw new AppError("OS_PATH_REFUSED", { path, reason: `it is not below ${VHOST_USER_DIR}` });
}

/** Opens what is below a trusted directory, and closes it after use. */
function using<T>(
  at: { root: string; path: string },
  kind: "path" | "directory",
  use: (fd: number) => T,
): T {
  const root = openSync(at.root, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const fd = osNative().openBeneath(root, at.path, kind);
    try {
      return use(fd);
    } finally {
      closeSync(fd);
    }
  } finally {
    closeSync(root);
  }
}

/** One that was made anew has another number, or another time of birth where the file system gives a number again. */
function idOf({ ino, birthtimeNs }: BigIntStats): number {
  return Number(BigInt.asUintN(52, birthtimeNs ^ (ino << 32n)));
}

class MachineSockets implements VhostSockets {
  readonly #options: VhostSocketsOptions;

  constructor(options: VhostSocketsOptions) {
    this.#options = options;
  }

  look(podUid: string, socket: VhostSocket): SeenSocket {
    try {
      return this.#atSocket(socket, (fd) => this.#judge(podUid, socket, fd));
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if (errno === "ENOENT") return { state: "missing" };
      if (!REFUSED.includes(errno)) throw toFileError(error, "openat2", socket.path);
      const reason = `a symbolic link, or no directory, on the way to it (${errno})`;
      return { state: "refused", reason };
    }
  }

  link(podUid: string, socket: VhostSocket): void {
    try {
      this.#atSocket(socket, (fd) => {
        const { state, reason = "" } = this.#judge(podUid, socket, fd);
        if (state === "refused")
          throw new AppError("OS_PATH_REFUSED", { path: socket.path, reason });
        const { uid, mode } = fstatSync(fd);
        chownSync(pathOf(fd), uid, this.#options.uid);
        chmodSync(pathOf(fd), (mode & PERMISSIONS) | GROUP_ACCESS);
      });
      this.#atVolume(podUid, (fd) => {
        const name = `${pathOf(fd)}/${socketLinkOf(socket.podInterfaceName)}`;
        // What a launcher has put there goes; a directory stays, and is its own fault.
        rmSync(`${name}.new`, { force: true });
        symlinkSync(socket.path, `${name}.new`);
        renameSync(`${name}.new`, name);
      });
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw toFileError(error, "link", socket.path);
    }
  }

  watch(path: string, changed: () => void, signal: AbortSignal): void {
    const names = belowRun(path).split("/");
    watchLauncherPath({ podsDir: this.#options.runDir, names }, changed, signal);
  }

  #atSocket<T>({ path }: VhostSocket, use: (fd: number) => T): T {
    return using({ root: this.#options.runDir, path: belowRun(path) }, "path", use);
  }

  #atVolume<T>(podUid: string, use: (fd: number) => T): T {
    const path = `${podUid}/${EMPTY_DIR_VOLUMES}/${LAUNCHER_VOLUME}`;
    return using({ root: this.#options.podsDir, path }, "directory", use);
  }

  #judge(podUid: string, socket: VhostSocket, fd: number): SeenSocket {
    const status = fstatSync(fd, { bigint: true });
    const id = idOf(status);
    if (!status.isSocket()) return { state: "refused", reason: "it is no socket" };
    if (Number(status.uid) === this.#options.uid) {
      return { state: "refused", reason: "the launcher has made it, not the dataplane" };
    }
    const mayConnect =
      Number(status.gid) === this.#options.uid &&
      (Number(status.mode) & GROUP_ACCESS) === GROUP_ACCESS;
    const isReady = mayConnect && this.#isLinked(podUid, socket);
    return { state: isReady ? "ready" : "found", id };
  }

  #isLinked(podUid: string, { podInterfaceName, path }: VhostSocket): boolean {
    try {
      return this.#atVolume(
        podUid,
        (fd) => readlinkSync(`${pathOf(fd)}/${socketLinkOf(podInterfaceName)}`) === path,
      );
    } catch {
      return false; // none, or no link: it is made
    }
  }
}

/** Sockets below the node's {@link VHOST_USER_DIR} for launchers below a directory of pods. */
export function createVhostSockets(options: VhostSocketsOptions): VhostSockets {
  return new MachineSockets(options);
}
