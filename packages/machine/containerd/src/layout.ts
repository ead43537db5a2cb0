// SPDX-License-Identifier: Apache-2.0
// Where does a containerd of one's own keep what? Everything lies below two directories, and nothing is the machine's.
import { join } from "node:path";
import { AppError } from "@patchbay/core";

/** Longest path of a unix socket, bytes. Source: linux/un.h UNIX_PATH_MAX, with the zero at its end. */
const SOCKET_PATH_MAX = 107;
/** What containerd appends for its second socket. Source: containerd, config `ttrpc.address`. */
const TTRPC_SUFFIX = ".ttrpc";

/** What is chosen; all paths are absolute. */
export interface ContainerdPlaces {
  /** Configuration, images and state. */
  readonly directory: string;
  /** Of the socket. */
  readonly runDirectory: string;
  /** Configurations of the pods' default network. */
  readonly cniConfDirectory: string;
}

/** Files and directories of one containerd. */
export interface ContainerdLayout {
  readonly directory: string;
  readonly runDirectory: string;
  readonly cniConfDirectory: string;
  /** `config.toml`. */
  readonly config: string;
  /** What every container's specification begins with. */
  readonly baseSpec: string;
  /** Images and snapshots. */
  readonly root: string;
  /** What is of this start of the host: bundles of running containers, network namespaces. */
  readonly state: string;
  /** Says of which start of the host `state` is. */
  readonly stateBoot: string;
  /** Containers whose shims have had sockets since the host started. */
  readonly shims: string;
  readonly runcRoot: string;
  readonly opt: string;
  /** `HOST/hosts.toml` for registries that need one. Source: containerd, configuration of registry hosts. */
  readonly registryHosts: string;
  readonly socket: string;
}

/**
 * The layout of a containerd.
 * @throws AppError with CONTAINERD_PATH_TOO_LONG when no socket can be made there.
 */
export function layoutOf(places: ContainerdPlaces): ContainerdLayout {
  const { directory, runDirectory } = places;
  const socket = join(runDirectory, "containerd.sock");
  const longest = new TextEncoder().encode(`${socket}${TTRPC_SUFFIX}`).length;
  if (longest > SOCKET_PATH_MAX) {
    const bytesOver = longest - SOCKET_PATH_MAX;
    throw new AppError("CONTAINERD_PATH_TOO_LONG", { path: runDirectory, bytesOver });
  }
  const state = join(directory, "state");
  return {
    ...places,
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
