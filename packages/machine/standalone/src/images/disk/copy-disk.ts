// SPDX-License-Identifier: Apache-2.0
// How does a disk's file become the root of an image? Copied first, so that what was looked at is what guests get.
import { join } from "node:path";
import { names } from "@patchbay/api";
import { runOnSource } from "@patchbay/containerd";
import { AppError } from "@patchbay/core";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import { lookAtDisk } from "./look-at.ts";
import { judgeDisk, type Disk } from "./verdict.ts";

/** The image's root while it is made, the archive, and what containerd keeps of it: times the file's size. */
const COPIES = 3;
/** Where a VM looks for its disk in an image. Source: KubeVirt, containerDisk. */
const DIRECTORY = "disk";
const MIB = 2 ** 20;

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

/** From where to where. */
export interface DiskCopy {
  /** As the user named it, for words. */
  readonly source: string;
  /** Absolute. */
  readonly path: string;
  /** Absolute, not there yet: becomes the image's root. */
  readonly root: string;
}

/** For a person. */
export function inMib(bytes: number): string {
  return `${String(Math.ceil(bytes / MIB))} MiB`;
}

async function insistOnSpace({ files }: Deps, copy: DiskCopy, bytes: number): Promise<void> {
  const { freeBytes } = await files.space(copy.root);
  const needed = bytes * COPIES;
  if (needed <= freeBytes) return;
  const reason = `it needs ${inMib(needed)} on the file system of ${copy.root}, which has ${inMib(freeBytes)} free`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: copy.source, reason });
}

/**
 * Makes `root` with the disk in it, which the launchers' user owns, and tells what disk it is.
 * @throws AppError with IMAGE_SOURCE_INVALID
 */
export async function copyDisk(deps: Deps, copy: DiskCopy): Promise<Disk & { bytes: number }> {
  const { source, path, root } = copy;
  const directory = join(root, DIRECTORY);
  const bytes = Number(
    await runOnSource(deps, source, ["stat", "--dereference", "--format=%s", path]),
  );
  await deps.files.ensureDirectory(directory);
  await insistOnSpace(deps, copy, bytes);
  const temporary = join(directory, "file");
  await runOnSource(deps, source, ["cp", "--reflink=auto", "--sparse=always", path, temporary]);
  const user = String(names.LAUNCHER_UID);
  await runOnSource(deps, source, ["chown", `${user}:${user}`, temporary]);
  await runOnSource(deps, source, ["chmod", "0440", temporary]);
  const info = await lookAtDisk(deps.runner, { path: temporary, source });
  const disk = judgeDisk({ source, bytes, info });
  const name = disk.format === "qcow2" ? "disk.qcow2" : "disk.img";
  await runOnSource(deps, source, ["mv", temporary, join(directory, name)]);
  return { ...disk, bytes };
}
