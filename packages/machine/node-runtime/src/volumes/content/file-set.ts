// SPDX-License-Identifier: Apache-2.0
// The files of a volume while they are being collected: whose they are, and which paths they may have. Pure.
import { AppError } from "@patchbay/core";
import type { VolumeFile } from "@patchbay/core/ports";

/** For whom a volume is made. */
export interface VolumeReader {
  /** Name of the volume. */
  readonly volume: string;
  /** Group of the pod's files; absent: root. */
  readonly fsGroup?: number;
  /** The one user that all containers run as; absent: there are several, or the images say. */
  readonly onlyUser?: number;
}

/** Source: core/v1 defaultMode of configMap, secret, downwardAPI and projected volumes. */
export const DEFAULT_MODE = 0o644;
/** What the group may always do. Source: Kubernetes volume_linux.go, roMask. */
const GROUP_READS = 0o440;
/** Source: Linux NAME_MAX, PATH_MAX. */
const NAME_MAX = 255;
const PATH_MAX = 4096;

/** Refuses a volume, in words for its user. */
export function volumeFailed(volume: string, reason: string): AppError {
  return new AppError("RUNTIME_VOLUME_FAILED", { volume, reason });
}

/** Names that begin with two dots are ours. Source: Kubernetes atomic_writer.go validatePath. */
function isGoodPath(path: string): boolean {
  const names = path.split("/");
  const isGood = (name: string): boolean =>
    name !== "" && name !== "." && name !== ".." && Buffer.byteLength(name) <= NAME_MAX;
  return !path.startsWith("..") && Buffer.byteLength(path) < PATH_MAX && names.every(isGood);
}

/** Collects files by their paths; a later one takes the place of an earlier one. */
export class FileSet {
  readonly files = new Map<string, VolumeFile>();
  readonly #reader: VolumeReader;

  constructor(reader: VolumeReader) {
    this.#reader = reader;
  }

  /**
   * Adds a file that whoever has the volume may read as `mode` says; `uid`: whose it is.
   * @throws AppError with RUNTIME_VOLUME_FAILED when it would lie outside, or where a directory is
   */
  add(
    path: string,
    bytes: Uint8Array,
    file: { readonly mode: number; readonly uid?: number },
  ): void {
    const { volume, fsGroup } = this.#reader;
    if (!isGoodPath(path)) throw volumeFailed(volume, `invalid path ${JSON.stringify(path)}`);
    const clash = [...this.files.keys()].find(
      (other) => other.startsWith(`${path}/`) || path.startsWith(`${other}/`),
    );
    if (clash !== undefined) throw volumeFailed(volume, `paths ${path} and ${clash} collide`);
    const group = fsGroup === undefined ? {} : { gid: fsGroup };
    const mode = fsGroup === undefined ? file.mode : file.mode | GROUP_READS;
    this.files.set(path, {
      bytes,
      mode,
      ...group,
      ...(file.uid !== undefined && { uid: file.uid }),
    });
  }
}
