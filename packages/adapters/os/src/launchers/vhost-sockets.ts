// SPDX-License-Identifier: Apache-2.0
// Implements VhostSockets. Launchers can change their volumes, and a dataplane can change its directories. Therefore, files in these
// volumes and directories are opened without following symbolic links, checked, and changed by descriptor. A launcher does not mount
// the dataplane's directories. It mounts a directory that only root can change, with hard links to the launcher's sockets.
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
import { AppError } from "@patchbay/base";
import type { ObservedSocket, VhostSocket } from "@patchbay/core/nics";
import type { VhostSockets } from "@patchbay/core/interfaces";
import { buildSocketLinkName } from "@patchbay/core/socket-link";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { descriptorPath, withPathBeneath } from "../files/open-beneath.ts";
import { watchLauncherPath } from "./launcher-watch.ts";
import { labelForContainers } from "./selinux.ts";
import {
  GROUP_READ_WRITE_MODE,
  isConnectable,
  launcherPathRelativeToRun,
  socketRelativeToRun,
  computeSocketId,
  findSocketRefusal,
  type VhostOwners,
} from "./vhost-rules.ts";

export interface VhostSocketsOptions extends VhostOwners {
  readonly podsDir: string;
  /** Path under which this process sees the node's `/run`, for example `/proc/1/root/run` in a pod. */
  readonly runDir: string;
  /** Mount point of selinuxfs, `/sys/fs/selinux`. */
  readonly selinuxDir: string;
}

const PERMISSION_BITS = 0o7777;
const BIGINT_STATS = { bigint: true } as const;

/** Errno names for a symbolic link, a path that leaves the root, and a path component that is not a directory. Source: openat2(2) */
const REFUSED_ERRNOS: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

function isSameFile(a: BigIntStats, b: BigIntStats): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

class HostVhostSockets implements VhostSockets {
  readonly #options: VhostSocketsOptions;

  constructor(options: VhostSocketsOptions) {
    this.#options = options;
  }

  observe(podUid: string, socket: VhostSocket): ObservedSocket {
    try {
      return this.#withSocket(socket, (fd) => this.#observe(podUid, socket, fd));
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if (errno === "ENOENT") return { state: "missing" };
      if (!REFUSED_ERRNOS.includes(errno)) throw toFileError(error, "openat2", socket.path);
      const reason = `a symbolic link, or no directory, on the way to it (${errno})`;
      return { state: "refused", reason };
    }
  }

  link(podUid: string, socket: VhostSocket): void {
    try {
      this.#withSocket(socket, (fd) => {
        const { state, reason = "" } = this.#observe(podUid, socket, fd);
        if (state === "refused")
          throw new AppError("OS_PATH_REFUSED", { path: socket.path, reason });
        const { uid, mode } = fstatSync(fd);
        chownSync(descriptorPath(fd), uid, this.#options.uid);
        chmodSync(descriptorPath(fd), (mode & PERMISSION_BITS) | GROUP_READ_WRITE_MODE);
        labelForContainers(descriptorPath(fd), this.#options.selinuxDir);
        this.#linkForLauncher(socket, fd);
      });
      this.#withVolume(podUid, (fd) => {
        const name = `${descriptorPath(fd)}/${buildSocketLinkName(socket.podInterfaceName)}`;
        // Removes a file that the launcher may have created under this name.
        rmSync(`${name}.new`, { force: true });
        symlinkSync(socket.path, `${name}.new`);
        renameSync(`${name}.new`, name);
      });
    } catch (error) {
      throw toFileError(error, "link", socket.path);
    }
  }

  watch(path: string, onChange: () => void, signal: AbortSignal): void {
    const names = socketRelativeToRun(path).split("/");
    watchLauncherPath({ podsDir: this.#options.runDir, names }, onChange, signal);
  }

  #withSocket<T>({ path }: VhostSocket, use: (fd: number) => T): T {
    return withPathBeneath(
      { root: this.#options.runDir, path: socketRelativeToRun(path) },
      "path",
      use,
    );
  }

  #withVolume<T>(podUid: string, use: (fd: number) => T): T {
    const path = `${podUid}/${EMPTY_DIR_VOLUMES}/${LAUNCHER_VOLUME}`;
    return withPathBeneath({ root: this.#options.podsDir, path }, "directory", use);
  }

  /** Links the socket into the launcher's directory. Then checks the link's inode, because the dataplane can replace the checked socket. */
  #linkForLauncher({ path }: VhostSocket, checkedSocket: number): void {
    const { runDir: root } = this.#options;
    // If the launcher's link already refers to this socket, rename(2) would do nothing and leave the temporary link.
    if (this.#isLinkedForLauncher(path, checkedSocket)) return;
    const name = basename(path);
    withPathBeneath(
      { root, path: dirname(launcherPathRelativeToRun(path)) },
      "directory",
      (launcherFd) => {
        const temporary = `${descriptorPath(launcherFd)}/.${name}`;
        rmSync(temporary, { force: true });
        withPathBeneath(
          { root, path: dirname(socketRelativeToRun(path)) },
          "directory",
          (dataplaneFd) => {
            linkSync(`${descriptorPath(dataplaneFd)}/${name}`, temporary);
          },
        );
        const isSame = isSameFile(
          lstatSync(temporary, BIGINT_STATS),
          fstatSync(checkedSocket, BIGINT_STATS),
        );
        if (isSame) renameSync(temporary, `${descriptorPath(launcherFd)}/${name}`);
        else rmSync(temporary, { force: true });
        if (!isSame) throw new AppError("OS_PATH_REFUSED", { path, reason: "it changes" });
      },
    );
  }

  #isLinkedForLauncher(path: string, fd: number): boolean {
    try {
      return withPathBeneath(
        { root: this.#options.runDir, path: launcherPathRelativeToRun(path) },
        "path",
        (launcherFd) =>
          isSameFile(fstatSync(launcherFd, BIGINT_STATS), fstatSync(fd, BIGINT_STATS)),
      );
    } catch {
      return false;
    }
  }

  #hasLauncherDirectory(path: string): boolean {
    const directory = {
      root: this.#options.runDir,
      path: dirname(launcherPathRelativeToRun(path)),
    };
    try {
      return withPathBeneath(directory, "directory", () => true);
    } catch {
      return false;
    }
  }

  #observe(podUid: string, socket: VhostSocket, fd: number): ObservedSocket {
    const status = fstatSync(fd, BIGINT_STATS);
    const id = computeSocketId(status);
    const reason = this.#findRefusal(socket, status);
    if (reason !== undefined) return { state: "refused", reason };
    const isReady =
      isConnectable(status, this.#options) &&
      this.#isLinkedForLauncher(socket.path, fd) &&
      this.#isLinked(podUid, socket);
    return { state: isReady ? "ready" : "found", id };
  }

  #findRefusal({ path }: VhostSocket, status: BigIntStats): string | undefined {
    const reason = findSocketRefusal(status, this.#options);
    return reason ?? (this.#hasLauncherDirectory(path) ? undefined : "its directory is no pod's");
  }

  #isLinked(podUid: string, { podInterfaceName, path }: VhostSocket): boolean {
    try {
      return this.#withVolume(
        podUid,
        (fd) =>
          readlinkSync(`${descriptorPath(fd)}/${buildSocketLinkName(podInterfaceName)}`) === path,
      );
    } catch {
      return false;
    }
  }
}

export function createVhostSockets(options: VhostSocketsOptions): VhostSockets {
  return new HostVhostSockets(options);
}
