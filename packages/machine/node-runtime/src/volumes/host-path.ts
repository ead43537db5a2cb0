// SPDX-License-Identifier: Apache-2.0
// Paths of the node itself, for the few pods that may have them.
import type { PodVolume } from "@patchbay/api";
import { volumeFailed } from "./content/file-set.ts";
import type { VolumeDeps } from "./deps.ts";

/** What has to be at the path, by type of the volume. Source: core/v1 HostPathType. */
const WANTED: Readonly<Record<string, string | undefined>> = {
  "": undefined,
  Directory: "Directory",
  DirectoryOrCreate: "Directory",
  File: "File",
  FileOrCreate: "File",
  Socket: "Socket",
  CharDevice: "CharDevice",
  BlockDevice: "BlockDevice",
};

type HostPath = NonNullable<PodVolume["hostPath"]>;

async function makeMissing({ disk, files }: VolumeDeps, { path, type }: HostPath): Promise<void> {
  if ((await disk.kindOf(path)) !== undefined) return;
  if (type === "DirectoryOrCreate") await disk.makeDirectory(path, { uid: 0, gid: 0, mode: 0o755 });
  if (type === "FileOrCreate") await files.writeAtomic(path, "", 0o644);
}

/**
 * The path, if it is what the volume says.
 * @throws AppError with RUNTIME_VOLUME_FAILED
 */
export async function findHostPath(
  deps: VolumeDeps,
  volume: { readonly name: string; readonly hostPath: HostPath },
): Promise<string> {
  const { name, hostPath } = volume;
  const { path, type = "" } = hostPath;
  if (!path.startsWith("/") || path.split("/").includes("..")) {
    throw volumeFailed(name, `hostPath ${path} must be absolute and without ..`);
  }
  if (!Object.hasOwn(WANTED, type)) throw volumeFailed(name, `hostPath has no type ${type}`);
  await makeMissing(deps, hostPath);
  const [kind, wanted] = [await deps.disk.kindOf(path), WANTED[type]];
  if (kind === undefined) throw volumeFailed(name, `hostPath ${path} does not exist`);
  if (wanted !== undefined && kind !== wanted) {
    throw volumeFailed(name, `hostPath ${path} is a ${kind}, not a ${wanted}`);
  }
  return path;
}
