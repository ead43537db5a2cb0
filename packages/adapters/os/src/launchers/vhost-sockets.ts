// SPDX-License-Identifier: Apache-2.0
// The port VhostSockets on this machine. Launchers can write to their own volume, and a dataplane to its directories of
// sockets: what lies there is opened through no symbolic link, judged, and changed by its descriptor alone. What a launcher
// mounts is no directory of the dataplane's, which could put a link in its place just before: it is root's alone, and a
// socket is shown there by a second name of its inode.
import {
  chmodSync,
  chownSync,
  fstatSync,
  linkSync,
  lstatSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  type BigIntStats,
} from "node:fs";
import { basename, dirname } from "node:path";
import { EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import type { SeenSocket, VhostSocket } from "@patchbay/core";
import type { VhostSockets } from "@patchbay/core/ports";
import { socketLinkOf } from "@patchbay/core/socket-link";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { pathOf, using } from "./beneath.ts";
import { watchLauncherPath } from "./launcher-watch.ts";
import { labelForContainers } from "./selinux.ts";
import {
  GROUP_ACCESS,
  isConnectable,
  shownFromRun,
  socketFromRun,
  socketId,
  socketRefusal,
  type VhostOwners,
} from "./vhost-rules.ts";

/** What {@link createVhostSockets} needs. */
export interface VhostSocketsOptions extends VhostOwners {
  /** Directory of pods, for example `/var/lib/kubelet/pods`. */
  readonly podsDir: string;
  /** What the node's `/run` is from here: `/run`, or for example `/proc/1/root/run` in a pod. */
  readonly runDir: string;
  /** Where the kernel shows SELinux, if it has it, as it is from here: `/sys/fs/selinux`. */
  readonly selinuxDir: string;
}

const PERMISSIONS = 0o7777;
const BIG = { bigint: true } as const;

/** A symbolic link, a way out, a file where a directory must be. Source: openat2(2). */
const REFUSED: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

/** Whether both are one file. */
function isOne(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
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
        labelForContainers(pathOf(fd), this.#options.selinuxDir);
        this.#show(socket, fd);
      });
      this.#atVolume(podUid, (fd) => {
        const name = `${pathOf(fd)}/${socketLinkOf(socket.podInterfaceName)}`;
        // What a launcher has put there goes; a directory stays, and is its own fault.
        rmSync(`${name}.new`, { force: true });
        symlinkSync(socket.path, `${name}.new`);
        renameSync(`${name}.new`, name);
      });
    } catch (error) {
      throw toFileError(error, "link", socket.path);
    }
  }

  watch(path: string, changed: () => void, signal: AbortSignal): void {
    const names = socketFromRun(path).split("/");
    watchLauncherPath({ podsDir: this.#options.runDir, names }, changed, signal);
  }

  #atSocket<T>({ path }: VhostSocket, use: (fd: number) => T): T {
    return using({ root: this.#options.runDir, path: socketFromRun(path) }, "path", use);
  }

  #atVolume<T>(podUid: string, use: (fd: number) => T): T {
    const path = `${podUid}/${EMPTY_DIR_VOLUMES}/${LAUNCHER_VOLUME}`;
    return using({ root: this.#options.podsDir, path }, "directory", use);
  }

  /** By its name, since no descriptor can be given another: what was named is looked at before it is shown. */
  #show({ path }: VhostSocket, judged: number): void {
    const { runDir: root } = this.#options;
    if (this.#isShown(path, judged)) return; // a rename onto itself would leave both names
    const name = basename(path);
    using({ root, path: dirname(shownFromRun(path)) }, "directory", (shown) => {
      const temporary = `${pathOf(shown)}/.${name}`;
      rmSync(temporary, { force: true });
      using({ root, path: dirname(socketFromRun(path)) }, "directory", (made) => {
        linkSync(`${pathOf(made)}/${name}`, temporary);
      });
      const isSame = isOne(lstatSync(temporary, BIG), fstatSync(judged, BIG));
      if (isSame) renameSync(temporary, `${pathOf(shown)}/${name}`);
      else rmSync(temporary, { force: true });
      if (!isSame) throw new AppError("OS_PATH_REFUSED", { path, reason: "it changes" });
    });
  }

  #isShown(path: string, fd: number): boolean {
    try {
      return using({ root: this.#options.runDir, path: shownFromRun(path) }, "path", (shown) =>
        isOne(fstatSync(shown, BIG), fstatSync(fd, BIG)),
      );
    } catch {
      return false; // it is not there: it is made
    }
  }

  /** Whether a launcher has the directory that the socket is in. */
  #isForLauncher(path: string): boolean {
    const at = { root: this.#options.runDir, path: dirname(shownFromRun(path)) };
    try {
      return using(at, "directory", () => true);
    } catch {
      return false;
    }
  }

  #judge(podUid: string, socket: VhostSocket, fd: number): SeenSocket {
    const status = fstatSync(fd, BIG);
    const id = socketId(status);
    const reason = this.#refusalOf(socket, status);
    if (reason !== undefined) return { state: "refused", reason };
    const isReady =
      isConnectable(status, this.#options) &&
      this.#isShown(socket.path, fd) &&
      this.#isLinked(podUid, socket);
    return { state: isReady ? "ready" : "found", id };
  }

  #refusalOf({ path }: VhostSocket, status: BigIntStats): string | undefined {
    const reason = socketRefusal(status, this.#options);
    return reason ?? (this.#isForLauncher(path) ? undefined : "its directory is no pod's");
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
