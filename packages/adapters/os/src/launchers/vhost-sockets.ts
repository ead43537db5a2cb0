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
import {
  EMPTY_DIR_VOLUMES,
  LAUNCHER_VOLUME,
  VHOST_USER_DIR,
  VHOST_USER_SHOWN_DIR,
} from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import type { SeenSocket, VhostSocket } from "@patchbay/core";
import type { VhostSockets } from "@patchbay/core/ports";
import { socketLinkOf } from "@patchbay/core/socket-link";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { pathOf, using } from "./beneath.ts";
import { watchLauncherPath } from "./launcher-watch.ts";
import { labelForContainers } from "./selinux.ts";

/** What {@link createVhostSockets} needs. */
export interface VhostSocketsOptions {
  /** Directory of pods, for example `/var/lib/kubelet/pods`. */
  readonly podsDir: string;
  /** What the node's `/run` is from here: `/run`, or for example `/proc/1/root/run` in a pod. */
  readonly runDir: string;
  /** Where the kernel shows SELinux, if it has it, as it is from here: `/sys/fs/selinux`. */
  readonly selinuxDir: string;
  /** User and group of all launchers. */
  readonly uid: number;
  /** Group of a dataplane that is not root, whose members make sockets; absent or 0: root alone does. */
  readonly dataplaneGroup?: number;
}

/** The group may connect, which is to write. Source: unix(7). */
const GROUP_ACCESS = 0o060;
const PERMISSIONS = 0o7777;
const BIG = { bigint: true } as const;

/** A symbolic link, a way out, a file where a directory must be. Source: openat2(2). */
const REFUSED: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

/** What is above it may not be there yet. */
function belowRun(path: string): string {
  if (path.startsWith(`${VHOST_USER_DIR}/`)) return path.slice("/run/".length);
  throw new AppError("OS_PATH_REFUSED", { path, reason: `it is not below ${VHOST_USER_DIR}` });
}

/** The path, below the node's `/run`, under which the launcher's directory has the socket. */
function shownOf(path: string): string {
  belowRun(path);
  return `${VHOST_USER_SHOWN_DIR}${path.slice(VHOST_USER_DIR.length)}`.slice("/run/".length);
}

/** One that was made anew has another number, or another time of birth where the file system gives a number again. */
function idOf({ ino, birthtimeNs }: BigIntStats): number {
  return Number(BigInt.asUintN(52, birthtimeNs ^ (ino << 32n)));
}

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

  /** By its name, since no descriptor can be given another: what was named is looked at before it is shown. */
  #show({ path }: VhostSocket, judged: number): void {
    const { runDir: root } = this.#options;
    if (this.#isShown(path, judged)) return; // a rename onto itself would leave both names
    const name = basename(path);
    using({ root, path: dirname(shownOf(path)) }, "directory", (shown) => {
      const temporary = `${pathOf(shown)}/.${name}`;
      rmSync(temporary, { force: true });
      using({ root, path: dirname(belowRun(path)) }, "directory", (made) => {
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
      return using({ root: this.#options.runDir, path: shownOf(path) }, "path", (shown) =>
        isOne(fstatSync(shown, BIG), fstatSync(fd, BIG)),
      );
    } catch {
      return false; // it is not there: it is made
    }
  }

  /** Whether a launcher has the directory that the socket is in. */
  #isForLauncher(path: string): boolean {
    const at = { root: this.#options.runDir, path: dirname(shownOf(path)) };
    try {
      return using(at, "directory", () => true);
    } catch {
      return false;
    }
  }

  #judge(podUid: string, socket: VhostSocket, fd: number): SeenSocket {
    const status = fstatSync(fd, BIG);
    const id = idOf(status);
    const reason = this.#refusalOf(socket, status);
    if (reason !== undefined) return { state: "refused", reason };
    const mayConnect =
      Number(status.gid) === this.#options.uid &&
      (Number(status.mode) & GROUP_ACCESS) === GROUP_ACCESS;
    const isReady = mayConnect && this.#isShown(socket.path, fd) && this.#isLinked(podUid, socket);
    return { state: isReady ? "ready" : "found", id };
  }

  #refusalOf({ path }: VhostSocket, status: BigIntStats): string | undefined {
    if (!status.isSocket()) return "it is no socket";
    const { uid, dataplaneGroup = 0 } = this.#options;
    if (Number(status.uid) === uid) return "the launcher has made it, not the dataplane";
    const gid = Number(status.gid);
    // Where others than root may give it a name here, it may be anybody's: what is made here has the directory's group.
    if (dataplaneGroup !== 0 && ![dataplaneGroup, uid].includes(gid)) {
      return `its group is ${String(gid)}, not the dataplane's (${String(dataplaneGroup)}): it was made elsewhere, or by somebody else`;
    }
    return this.#isForLauncher(path) ? undefined : "its directory is no pod's";
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
