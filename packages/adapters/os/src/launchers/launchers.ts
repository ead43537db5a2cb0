// SPDX-License-Identifier: Apache-2.0
// How does virt-handler reach a launcher without trusting anything in it? ADR 0006 says what is checked and why.
import {
  EMPTY_DIR_VOLUMES,
  HOOK_SIDECAR_PREFIX,
  LAUNCHER_RESOLVER,
  LAUNCHER_VOLUME,
  LIBVIRT_SOCKET,
} from "@patchbay/api/names";
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { AppError } from "@patchbay/core/errors";
import type { Launcher, LauncherPod, Launchers, Sandbox, Sandboxes } from "@patchbay/core/ports";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { watchLauncherPath } from "./launcher-watch.ts";
import { osNative } from "../native.ts";
import { watchProcessEnd } from "../processes/process-end.ts";

/** Where a pod's launcher listens, below the directory of pods. */
function socketPathOf(podUid: string): readonly string[] {
  return launcherPathOf(podUid, LIBVIRT_SOCKET);
}

function launcherPathOf(podUid: string, path: string): readonly string[] {
  return [podUid, EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME, path].join("/").split("/");
}

/** A pod's UID may be used as one name of a path. */
const POD_UID = /^[0-9A-Za-z][0-9A-Za-z-]{0,62}$/;

/** What {@link createLaunchers} needs. */
export interface LaunchersOptions {
  /** Directory of pods, for example `/var/lib/kubelet/pods`. */
  readonly podsDir: string;
  readonly sandboxes: Sandboxes;
  /** The user that all launchers run as. */
  readonly uid: number;
  /** Inode of the host's own network namespace, decimal text; never accepted. */
  readonly hostNetnsInode: string;
}

/** Finds launchers below a directory of pods. Works for processes of any pid namespace below ours. */
export function createLaunchers(options: LaunchersOptions): Launchers {
  return {
    open: (pod) => openLauncher(pod, options),
    watch: ({ uid }, changed, signal) => {
      watchLauncherPath(
        { podsDir: options.podsDir, names: socketPathOf(checked(uid)) },
        changed,
        signal,
      );
    },
  };
}

async function openLauncher(pod: LauncherPod, options: LaunchersOptions): Promise<Launcher> {
  const { uid: podUid } = pod;
  const path = socketPathOf(checked(podUid)).join("/");
  const sandbox = await options.sandboxes.find(podUid);
  if (sandbox === undefined) throw unreachable(podUid, "the pod has no sandbox");
  checkPod(sandbox, pod);
  const held = new Descriptors();
  try {
    const socketFd = held.add(openSocket(podUid, path, options.podsDir));
    const directoryFd = held.add(openVolume(podUid, options.podsDir));
    const pid = askPeer(podUid, { socketFd, uid: options.uid });
    const pidfd = held.add(openPeer(podUid, pid));
    const netnsFd = held.add(openNetns(podUid, pid));
    // Asked after /proc/<pid> was used: while this process lives, that pid was nobody else's.
    if (osNative().hasEnded(pidfd))
      throw unreachable(podUid, "the process behind its socket ended");
    const inode = inodeOf(netnsFd);
    checkNetns(inode, sandbox, options.hostNetnsInode);
    const end = watchProcessEnd(pidfd);
    held.release(pidfd);
    const resolver = readResolver(podUid, options.podsDir);
    const sidecars = readSidecars(podUid, options.podsDir);
    return {
      ...(sidecars.length === 0 ? {} : { sidecars }),
      ...(resolver === undefined ? {} : { resolver }),
      socketFd,
      directoryFd,
      netns: { fd: netnsFd, inode },
      ended: end.ended,
      close: () => {
        end.cancel();
        held.releaseAll();
      },
    };
  } catch (error) {
    held.releaseAll();
    throw error;
  }
}

/** Longest that is read of it, bytes. */
const RESOLVER_MAX = 65_536;

/** On the node's own file system, where nothing that is read can hold us up; absent or no file: the pod has told nothing. */
function readResolver(podUid: string, podsDir: string): string | undefined {
  const held = new Descriptors();
  try {
    const directoryFd = held.add(openSync(podsDir, constants.O_RDONLY | constants.O_DIRECTORY));
    const path = launcherPathOf(podUid, LAUNCHER_RESOLVER).join("/");
    const fd = held.add(osNative().openBeneath(directoryFd, path, "read"));
    if (!fstatSync(fd).isFile()) return undefined;
    const buffer = Buffer.alloc(RESOLVER_MAX);
    return buffer.toString("latin1", 0, readSync(fd, buffer, 0, RESOLVER_MAX, 0));
  } catch {
    return undefined;
  } finally {
    held.releaseAll();
  }
}

/** The kubelet's own directory: what is in it was made before the pod ran, and the pod cannot change it. */
function readSidecars(podUid: string, podsDir: string): readonly string[] {
  const directory = [podsDir, podUid, EMPTY_DIR_VOLUMES].join("/");
  return namesIn(directory)
    .filter((name) => /^\d{1,3}$/.test(name.slice(HOOK_SIDECAR_PREFIX.length)))
    .filter((name) => name.startsWith(HOOK_SIDECAR_PREFIX))
    .toSorted((left, right) => numberOf(left) - numberOf(right));
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    throw toFileError(error, "readdir", directory);
  }
}

function numberOf(sidecar: string): number {
  return Number(sidecar.slice(HOOK_SIDECAR_PREFIX.length));
}

/** Descriptors that are closed exactly once. */
class Descriptors {
  readonly #open = new Set<number>();

  add(fd: number): number {
    this.#open.add(fd);
    return fd;
  }

  release(fd: number): void {
    if (this.#open.delete(fd)) closeSync(fd);
  }

  releaseAll(): void {
    for (const fd of this.#open) this.release(fd);
  }
}

function checked(podUid: string): string {
  if (!POD_UID.test(podUid)) throw refused(podUid, "not the UID of a pod");
  return podUid;
}

/** Opens what the path leads to beneath the directory of pods, through no symbolic link. */
function openBelow(podUid: string, podsDir: string, wanted: Wanted): number {
  const { path, kind, missing } = wanted;
  let directoryFd: number | undefined;
  try {
    directoryFd = openSync(podsDir, constants.O_RDONLY | constants.O_DIRECTORY);
    return osNative().openBeneath(directoryFd, path, kind);
  } catch (error) {
    const errno = errnoOf(error) ?? "";
    if (errno === "ENOENT") throw unreachable(podUid, missing, error);
    // ELOOP: a symbolic link; EXDEV: a way out; ENOTDIR: a file where a directory must be.
    if (["ELOOP", "EXDEV", "ENOTDIR"].includes(errno))
      throw refused(path, `openat2: ${errno}`, error);
    throw toFileError(error, "openat2", `${podsDir}/${path}`);
  } finally {
    if (directoryFd !== undefined) closeSync(directoryFd);
  }
}

interface Wanted {
  readonly path: string;
  readonly kind: "path" | "directory";
  /** Said when it is not there. */
  readonly missing: string;
}

function openSocket(podUid: string, path: string, podsDir: string): number {
  const missing = "it has no libvirt socket yet";
  const fd = openBelow(podUid, podsDir, { path, kind: "path", missing });
  if (fstatSync(fd).isSocket()) return fd;
  closeSync(fd);
  throw refused(path, "not a socket");
}

/** The volume of the launcher's sockets, which the kubelet made, not the pod. */
function openVolume(podUid: string, podsDir: string): number {
  const path = [podUid, EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME].join("/");
  const missing = "it has no volume of sockets";
  return openBelow(podUid, podsDir, { path, kind: "directory", missing });
}

function askPeer(podUid: string, launcher: { socketFd: number; uid: number }): number {
  let peer;
  try {
    peer = osNative().connectPeer(launcher.socketFd);
  } catch (error) {
    const errno = errnoOf(error) ?? "failed";
    if (errno === "ECONNREFUSED") {
      throw new AppError("LAUNCHER_NOT_LISTENING", { vmi: `pod ${podUid}` }, { cause: error });
    }
    throw unreachable(podUid, `connect: ${errno}`, error);
  }
  if (peer.uid !== launcher.uid) {
    throw refused(
      podUid,
      `user ${String(peer.uid)} listens on its socket, not ${String(launcher.uid)}`,
    );
  }
  if (peer.pid <= 0)
    throw refused(podUid, "the process behind its socket has no PID in this node's namespace");
  return peer.pid;
}

function openPeer(podUid: string, pid: number): number {
  try {
    return osNative().openProcess(pid);
  } catch (error) {
    if (errnoOf(error) === "ESRCH") {
      throw unreachable(podUid, "the process behind its socket ended", error);
    }
    throw toFileError(error, "pidfd_open", `/proc/${String(pid)}`);
  }
}

function openNetns(podUid: string, pid: number): number {
  const path = `/proc/${String(pid)}/ns/net`;
  try {
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes(errnoOf(error) ?? "")) {
      throw unreachable(podUid, "the process behind its socket ended", error);
    }
    throw toFileError(error, "open", path);
  }
}

function inodeOf(fd: number): string {
  return fstatSync(fd, { bigint: true }).ino.toString();
}

/** A uid is a word: whoever writes it into a status could name a foreign pod. */
function checkPod({ pod: owner }: Sandbox, { uid, namespace, name }: LauncherPod): void {
  if (owner.namespace === namespace && owner.name === name) return;
  throw refused(
    uid,
    `it belongs to pod ${owner.namespace}/${owner.name}, not to the launcher ${namespace}/${name}`,
  );
}

function checkNetns(inode: string, sandbox: Sandbox, hostNetnsInode: string): void {
  if (inode === hostNetnsInode) {
    throw refused(
      sandbox.podUid,
      "the process behind its socket is in the host's network namespace",
    );
  }
  if (inode !== sandbox.netnsInode) {
    throw refused(
      sandbox.podUid,
      "the process behind its socket is not in the pod's network namespace",
    );
  }
}

function unreachable(podUid: string, reason: string, cause?: unknown): AppError {
  return new AppError("LAUNCHER_UNREACHABLE", { vmi: `pod ${podUid}`, reason }, { cause });
}

function refused(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("OS_PATH_REFUSED", { path, reason }, { cause });
}
