// SPDX-License-Identifier: Apache-2.0
// Where the runtime keeps what of a pod.
import { names } from "@patchbay/api";
import { join } from "node:path";
import { AppError } from "@patchbay/core";
import type { Directories } from "../deps.ts";

/** What a uid may look like; it becomes a directory and part of a namespace's name. */
const UID = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,127}$/;

/** Paths and names of one pod. */
export interface PodPaths {
  /** Volumes and `sandbox.json`, read by others. */
  readonly directory: string;
  readonly sandboxFile: string;
  /** The runtime's own. */
  readonly state: string;
  readonly record: string;
  readonly containers: string;
  readonly netnsName: string;
  readonly netns: string;
}

/**
 * The paths of a pod.
 * @throws AppError with OS_PATH_REFUSED when the uid cannot be a directory's name
 */
export function pathsOf(uid: string, directories: Directories): PodPaths {
  if (!UID.test(uid)) throw new AppError("OS_PATH_REFUSED", { path: uid, reason: "it is no uid" });
  const directory = join(directories.pods, uid);
  const state = join(directories.state, "pods", uid);
  const netnsName = `patchbay-${uid}`;
  return {
    directory,
    sandboxFile: join(directory, "sandbox.json"),
    state,
    record: join(state, "record.json"),
    containers: join(state, "containers"),
    netnsName,
    netns: join("/run/netns", netnsName),
  };
}

/** Directory of an emptyDir volume. */
export function volumeDirectory(paths: PodPaths, volume: string): string {
  return join(paths.directory, names.EMPTY_DIR_VOLUMES, volume);
}

/** Name of a container's control group. */
export function cgroupName(uid: string, container: string): string {
  return `${uid}.${container}`;
}
