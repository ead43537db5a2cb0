// SPDX-License-Identifier: Apache-2.0
// Opens launchers without trusting the contents of their volumes. ADR 0006 explains the checks.
import {
  EMPTY_DIR_VOLUMES,
  HOOK_SIDECAR_PREFIX,
  LAUNCHER_RESOLVER,
  LAUNCHER_VOLUME,
  LIBVIRT_SOCKET,
} from "@patchbay/api/names";
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { AppError } from "@patchbay/base";
import type {
  Launcher,
  LauncherPod,
  Launchers,
  Sandbox,
  Sandboxes,
} from "@patchbay/core/interfaces";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { watchLauncherPath } from "./launcher-watch.ts";
import { osNative } from "../native.ts";
import { watchProcessEnd } from "../processes/process-identity.ts";

function socketPath(podUid: string): readonly string[] {
  return launcherPath(podUid, LIBVIRT_SOCKET);
}

function launcherPath(podUid: string, path: string): readonly string[] {
  return [podUid, EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME, path].join("/").split("/");
}

const POD_UID = /^[0-9A-Za-z][0-9A-Za-z-]{0,62}$/;

export interface LaunchersOptions {
  readonly podsDir: string;
  readonly sandboxes: Pick<Sandboxes, "find">;
  readonly uid: number;
  /** Inode of the host's network namespace, in decimal. Launchers in this namespace are rejected. */
  readonly hostNetnsInode: string;
}

export function createLaunchers(options: LaunchersOptions): Launchers {
  return {
    open: (pod) => openLauncher(pod, options),
    watch: ({ uid }, onChange, signal) => {
      watchLauncherPath(
        { podsDir: options.podsDir, names: socketPath(requirePodUid(uid)) },
        onChange,
        signal,
      );
    },
  };
}

async function openLauncher(pod: LauncherPod, options: LaunchersOptions): Promise<Launcher> {
  const { uid: podUid } = pod;
  const path = socketPath(requirePodUid(podUid)).join("/");
  const sandbox = await options.sandboxes.find(podUid);
  if (sandbox === undefined) throw unreachableError(podUid, "the pod has no sandbox");
  checkPod(sandbox, pod);
  const descriptors = new Descriptors();
  try {
    const socketFd = descriptors.add(openSocket(podUid, path, options.podsDir));
    const directoryFd = descriptors.add(openVolume(podUid, options.podsDir));
    const pid = connectToPeer(podUid, { socketFd, uid: options.uid });
    const pidfd = descriptors.add(openPeer(podUid, pid));
    const netnsFd = descriptors.add(openNetns(podUid, pid));
    // If the process has ended, its PID may have been reused before the network namespace was opened.
    if (osNative().hasEnded(pidfd))
      throw unreachableError(podUid, "the process behind its socket ended");
    const inode = readInode(netnsFd);
    checkNetns(inode, sandbox, options.hostNetnsInode);
    const processEnd = watchProcessEnd(pidfd);
    descriptors.release(pidfd);
    const resolver = readResolver(podUid, options.podsDir);
    const sidecars = readSidecars(podUid, options.podsDir);
    return {
      ...(sidecars.length === 0 ? {} : { sidecars }),
      ...(resolver === undefined ? {} : { resolver }),
      ...(sandbox.isMeshed && { isMeshed: true }),
      socketFd,
      directoryFd,
      netns: { fd: netnsFd, inode },
      ended: processEnd.ended,
      close: () => {
        processEnd.cancel();
        descriptors.releaseAll();
      },
    };
  } catch (error) {
    descriptors.releaseAll();
    throw error;
  }
}

const RESOLVER_BYTES_MAX = 65_536;

function readResolver(podUid: string, podsDir: string): string | undefined {
  const descriptors = new Descriptors();
  try {
    const directoryFd = descriptors.add(
      openSync(podsDir, constants.O_RDONLY | constants.O_DIRECTORY),
    );
    const path = launcherPath(podUid, LAUNCHER_RESOLVER).join("/");
    const fd = descriptors.add(osNative().openBeneath(directoryFd, path, "read"));
    if (!fstatSync(fd).isFile()) return undefined;
    const buffer = Buffer.alloc(RESOLVER_BYTES_MAX);
    return buffer.toString("latin1", 0, readSync(fd, buffer, 0, RESOLVER_BYTES_MAX, 0));
  } catch {
    return undefined;
  } finally {
    descriptors.releaseAll();
  }
}

/** Lists the names of the pod's hook volumes. The names are trusted, because the pod cannot change the directory of its volumes. */
function readSidecars(podUid: string, podsDir: string): readonly string[] {
  const directory = [podsDir, podUid, EMPTY_DIR_VOLUMES].join("/");
  return listNames(directory)
    .filter((name) => /^\d{1,3}$/.test(name.slice(HOOK_SIDECAR_PREFIX.length)))
    .filter((name) => name.startsWith(HOOK_SIDECAR_PREFIX))
    .toSorted((a, b) => sidecarNumber(a) - sidecarNumber(b));
}

function listNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    throw toFileError(error, "readdir", directory);
  }
}

function sidecarNumber(sidecar: string): number {
  return Number(sidecar.slice(HOOK_SIDECAR_PREFIX.length));
}

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

function requirePodUid(podUid: string): string {
  if (!POD_UID.test(podUid)) throw refusedError(podUid, "not the UID of a pod");
  return podUid;
}

function openBeneathPods(podUid: string, podsDir: string, target: PathToOpen): number {
  const { path, kind, missingReason } = target;
  let directoryFd: number | undefined;
  try {
    directoryFd = openSync(podsDir, constants.O_RDONLY | constants.O_DIRECTORY);
    return osNative().openBeneath(directoryFd, path, kind);
  } catch (error) {
    const errno = errnoOf(error) ?? "";
    if (errno === "ENOENT") throw unreachableError(podUid, missingReason, error);
    // Errno names for a symbolic link, a path that leaves the directory, and a path component that is not a directory.
    if (["ELOOP", "EXDEV", "ENOTDIR"].includes(errno))
      throw refusedError(path, `openat2: ${errno}`, error);
    throw toFileError(error, "openat2", `${podsDir}/${path}`);
  } finally {
    if (directoryFd !== undefined) closeSync(directoryFd);
  }
}

interface PathToOpen {
  readonly path: string;
  readonly kind: "path" | "directory";
  readonly missingReason: string;
}

function openSocket(podUid: string, path: string, podsDir: string): number {
  const missingReason = "it has no libvirt socket yet";
  const fd = openBeneathPods(podUid, podsDir, { path, kind: "path", missingReason });
  if (fstatSync(fd).isSocket()) return fd;
  closeSync(fd);
  throw refusedError(path, "not a socket");
}

function openVolume(podUid: string, podsDir: string): number {
  const path = [podUid, EMPTY_DIR_VOLUMES, LAUNCHER_VOLUME].join("/");
  const missingReason = "it has no volume of sockets";
  return openBeneathPods(podUid, podsDir, { path, kind: "directory", missingReason });
}

function connectToPeer(podUid: string, launcher: { socketFd: number; uid: number }): number {
  let peer;
  try {
    peer = osNative().connectPeer(launcher.socketFd);
  } catch (error) {
    const errno = errnoOf(error) ?? "failed";
    if (errno === "ECONNREFUSED") {
      throw new AppError("LAUNCHER_NOT_LISTENING", { vmi: `pod ${podUid}` }, { cause: error });
    }
    throw unreachableError(podUid, `connect: ${errno}`, error);
  }
  if (peer.uid !== launcher.uid) {
    throw refusedError(
      podUid,
      `user ${String(peer.uid)} listens on its socket, not ${String(launcher.uid)}`,
    );
  }
  if (peer.pid <= 0)
    throw refusedError(podUid, "the process behind its socket has no PID in this node's namespace");
  return peer.pid;
}

function openPeer(podUid: string, pid: number): number {
  try {
    return osNative().openProcess(pid);
  } catch (error) {
    if (errnoOf(error) === "ESRCH") {
      throw unreachableError(podUid, "the process behind its socket ended", error);
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
      throw unreachableError(podUid, "the process behind its socket ended", error);
    }
    throw toFileError(error, "open", path);
  }
}

function readInode(fd: number): string {
  return fstatSync(fd, { bigint: true }).ino.toString();
}

/** Checks that the sandbox found by UID belongs to the launcher pod. A tenant can write another pod's UID to the VMI's status. */
function checkPod({ pod: sandboxPod }: Sandbox, { uid, namespace, name }: LauncherPod): void {
  if (sandboxPod.namespace === namespace && sandboxPod.name === name) return;
  throw refusedError(
    uid,
    `it belongs to pod ${sandboxPod.namespace}/${sandboxPod.name}, not to the launcher ${namespace}/${name}`,
  );
}

function checkNetns(inode: string, sandbox: Sandbox, hostNetnsInode: string): void {
  if (inode === hostNetnsInode) {
    throw refusedError(
      sandbox.podUid,
      "the process behind its socket is in the host's network namespace",
    );
  }
  if (inode !== sandbox.netnsInode) {
    throw refusedError(
      sandbox.podUid,
      "the process behind its socket is not in the pod's network namespace",
    );
  }
}

function unreachableError(podUid: string, reason: string, cause?: unknown): AppError {
  return new AppError("LAUNCHER_UNREACHABLE", { vmi: `pod ${podUid}`, reason }, { cause });
}

function refusedError(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("OS_PATH_REFUSED", { path, reason }, { cause });
}
