// SPDX-License-Identifier: Apache-2.0
// Paths of a dedicated containerd. All are below two directories, and none is shared with the machine's containerd.
import { join } from "node:path";
import { AppError } from "@patchbay/base";

/** Bytes, without the terminating zero. Source: linux/un.h UNIX_PATH_MAX. */
const SOCKET_PATH_MAX = 107;
/** Suffix of containerd's second socket. Source: containerd, config `ttrpc.address`. */
const TTRPC_SUFFIX = ".ttrpc";

/** All paths are absolute. */
export interface ContainerdDirectories {
  /** Configuration, images and state. */
  readonly directory: string;
  readonly runDirectory: string;
  /** Configurations of the pods' default network. */
  readonly cniConfDirectory: string;
}

export interface ContainerdLayout {
  readonly directory: string;
  readonly runDirectory: string;
  readonly cniConfDirectory: string;
  readonly config: string;
  readonly baseSpec: string;
  readonly root: string;
  /** State of this boot of the host. */
  readonly state: string;
  /** The boot that `state` belongs to. */
  readonly stateBoot: string;
  /** File with the containers whose shims had sockets since the host booted. */
  readonly shims: string;
  readonly runcRoot: string;
  readonly opt: string;
  /** `HOST/hosts.toml` for registries that need one. Source: containerd, configuration of registry hosts. */
  readonly registryHosts: string;
  readonly socket: string;
}

/** @throws AppError with CONTAINERD_PATH_TOO_LONG when the socket's path would be too long */
export function buildLayout(directories: ContainerdDirectories): ContainerdLayout {
  const { directory, runDirectory } = directories;
  const socket = join(runDirectory, "containerd.sock");
  const longest = new TextEncoder().encode(`${socket}${TTRPC_SUFFIX}`).length;
  if (longest > SOCKET_PATH_MAX) {
    const bytesOver = longest - SOCKET_PATH_MAX;
    throw new AppError("CONTAINERD_PATH_TOO_LONG", { path: runDirectory, bytesOver });
  }
  const state = join(directory, "state");
  return {
    ...directories,
    config: join(directory, "config.toml"),
    baseSpec: join(directory, "base-spec.json"),
    root: join(directory, "root"),
    state,
    stateBoot: join(directory, "state-boot-id"),
    shims: join(directory, "shims.json"),
    runcRoot: join(state, "runc"),
    opt: join(directory, "opt"),
    registryHosts: join(directory, "registries"),
    socket,
  };
}
