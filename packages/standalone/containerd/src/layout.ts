// SPDX-License-Identifier: Apache-2.0
// Paths of Patchbay's own containerd. The host's containerd uses other paths.
import { join } from "node:path";
import { AppError } from "@patchbay/base";

/** Maximum length of a socket path in bytes, without the terminating zero byte. Source: linux/un.h UNIX_PATH_MAX. */
const SOCKET_PATH_MAX_BYTES = 107;
/** Suffix of containerd's ttrpc socket. Source: containerd, config `ttrpc.address`. */
const TTRPC_SUFFIX = ".ttrpc";

/** Directories that determine the layout. All paths are absolute. */
export interface ContainerdDirectories {
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
  /** Directory of containerd's state, which is valid only for one boot of the host. */
  readonly state: string;
  /** File with the id of the boot for which `state` is valid. */
  readonly stateBoot: string;
  /** File with the ids of the containers whose shims had sockets during this boot. */
  readonly shims: string;
  readonly runcRoot: string;
  readonly opt: string;
  /** Directory with links to all CNI plugins, because containerd has only one plugin directory for all runtime handlers. */
  readonly cniPlugins: string;
  /** Directory with the CNI configuration for pods that name their own default network. */
  readonly ownNetworkConf: string;
  /** Directory with a file `HOST/hosts.toml` for each configured registry. Source: containerd, configuration of registry hosts. */
  readonly registryHosts: string;
  readonly socket: string;
}

/** @throws AppError with CONTAINERD_PATH_TOO_LONG when the socket's path would be too long */
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
    cniPlugins: join(directory, "cni-plugins"),
    ownNetworkConf: join(directory, "own-network"),
    registryHosts: join(directory, "registries"),
    socket,
  };
}
