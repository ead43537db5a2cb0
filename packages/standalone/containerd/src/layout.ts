// SPDX-License-Identifier: Apache-2.0
// Paths of a dedicated containerd. All are below two directories, and none is shared with the machine's containerd.
import { join } from "node:path";
import { AppError } from "@patchbay/base";

/** Maximum length in bytes, without the terminating zero. Source: linux/un.h UNIX_PATH_MAX. */
const SOCKET_PATH_MAX_BYTES = 107;
/** Suffix of containerd's second socket. Source: containerd, config `ttrpc.address`. */
const TTRPC_SUFFIX = ".ttrpc";

/** Directories that determine the layout. All paths are absolute. */
export interface ContainerdDirectories {
  /** Directory of the configuration, images and state. */
  readonly directory: string;
  readonly runDirectory: string;
  /** Directory with the configurations of the pods' default network. */
  readonly cniConfDirectory: string;
}

export interface ContainerdLayout {
  readonly directory: string;
  readonly runDirectory: string;
  readonly cniConfDirectory: string;
  readonly config: string;
  readonly baseSpec: string;
  readonly root: string;
  /** Directory of the state of this boot of the host. */
  readonly state: string;
  /** File with the boot that `state` belongs to. */
  readonly stateBoot: string;
  /** File with the containers whose shims had sockets since the host booted. */
  readonly shims: string;
  readonly runcRoot: string;
  readonly opt: string;
  /** Directory with `HOST/hosts.toml` for some registries. Source: containerd, configuration of registry hosts. */
  readonly registryHosts: string;
  readonly socket: string;
}

/** Builds the layout. Throws an AppError CONTAINERD_PATH_TOO_LONG if the socket's path would be too long. */
export function buildLayout(directories: ContainerdDirectories): ContainerdLayout {
  const { directory, runDirectory } = directories;
  const socket = join(runDirectory, "containerd.sock");
  const longestBytes = new TextEncoder().encode(`${socket}${TTRPC_SUFFIX}`).length;
  if (longestBytes > SOCKET_PATH_MAX_BYTES) {
    const bytesOver = longestBytes - SOCKET_PATH_MAX_BYTES;
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
