// SPDX-License-Identifier: Apache-2.0
// Volumes in memory.
import { AppError } from "@patchbay/base";
import type { DirectoryAccess, PathKind, VolumeDisk, VolumeFile } from "@patchbay/core/interfaces";

export interface FakeMount {
  readonly type: "memory" | "image" | "directory";
  readonly sizeBytes?: number;
  readonly image?: string;
  readonly source?: string;
}

export interface FakeVolumeDisk extends VolumeDisk {
  readonly directories: ReadonlyMap<string, DirectoryAccess>;
  readonly mounts: ReadonlyMap<string, FakeMount>;
  /** Text of each published file, by full path. */
  readonly texts: ReadonlyMap<string, string>;
  readonly published: ReadonlyMap<string, ReadonlyMap<string, VolumeFile>>;
  /** Number of calls of `usedBytes`. */
  readonly walks: number;
  /** Sets the size of a tree. */
  setUsed(path: string, bytes: number): void;
  setKind(path: string, kind: PathKind): void;
  /** Makes `mountImage` fail, as if the kernel had no loop devices. */
  refuseImages(): void;
  /** Forgets directories and files at `path` and below, as if the tree was removed. */
  forget(path: string): void;
}

function isAtOrBelow(point: string, path: string): boolean {
  return point === path || point.startsWith(`${path}/`);
}

function isSame(one: VolumeFile | undefined, other: VolumeFile): boolean {
  return (
    one !== undefined &&
    one.mode === other.mode &&
    (one.uid ?? 0) === (other.uid ?? 0) &&
    (one.gid ?? 0) === (other.gid ?? 0) &&
    one.bytes.join() === other.bytes.join()
  );
}

class MemoryDisk implements FakeVolumeDisk {
  readonly directories = new Map<string, DirectoryAccess>();
  readonly mounts = new Map<string, FakeMount>();
  readonly published = new Map<string, ReadonlyMap<string, VolumeFile>>();
  readonly #used = new Map<string, number>();
  readonly #kinds = new Map<string, PathKind>();
  #refusesImages = false;
  walks = 0;

  get texts(): ReadonlyMap<string, string> {
    const decoder = new TextDecoder();
    return new Map(
      [...this.published].flatMap(([directory, files]) =>
        [...files].map(([path, { bytes }]) => [`${directory}/${path}`, decoder.decode(bytes)]),
      ),
    );
  }

  setUsed(path: string, bytes: number): void {
    this.#used.set(path, bytes);
  }

  setKind(path: string, kind: PathKind): void {
    this.#kinds.set(path, kind);
  }

  refuseImages(): void {
    this.#refusesImages = true;
  }

  forget(path: string): void {
    for (const known of [this.directories, this.published, this.#used]) {
      for (const point of [...known.keys()]) if (isAtOrBelow(point, path)) known.delete(point);
    }
  }

  makeDirectory(path: string, access: DirectoryAccess): Promise<void> {
    this.directories.set(path, access);
    return Promise.resolve();
  }

  async mountMemory(
    path: string,
    { access, sizeBytes }: { readonly access: DirectoryAccess; readonly sizeBytes?: number },
  ): Promise<void> {
    await this.makeDirectory(path, access);
    if (this.mounts.has(path)) return;
    this.mounts.set(path, { type: "memory", ...(sizeBytes === undefined ? {} : { sizeBytes }) });
  }

  async mountImage(
    path: string,
    options: {
      readonly access: DirectoryAccess;
      readonly image: string;
      readonly sizeBytes: number;
    },
  ): Promise<void> {
    if (this.#refusesImages) {
      const stderr = "failed to setup loop device";
      throw new AppError("OS_PROGRAM_FAILED", { program: "mount", exitCode: 32, stderr });
    }
    const { access, ...mount } = options;
    const isElsewhere = [...this.mounts].some(
      ([point, { image }]) => image === mount.image && point !== path,
    );
    if (isElsewhere) {
      throw new AppError("OS_FILE_IN_USE", { path: mount.image, device: "/dev/loop0" });
    }
    await this.makeDirectory(path, access);
    if (!this.mounts.has(path)) this.mounts.set(path, { type: "image", ...mount });
  }

  async mountDirectory(path: string, source: string): Promise<void> {
    const kind = await this.readKind(source);
    if (kind === undefined) {
      const reason = "ENOENT: no such file or directory";
      throw new AppError("OS_FILE_FAILED", { call: "openat2", path: source, reason });
    }
    if (kind !== "Directory") {
      throw new AppError("OS_PATH_REFUSED", { path: source, reason: "openat2: ENOTDIR" });
    }
    if (!this.mounts.has(path)) this.mounts.set(path, { type: "directory", source });
  }

  unmountAll(path: string): Promise<void> {
    for (const point of [...this.mounts.keys()])
      if (isAtOrBelow(point, path)) this.mounts.delete(point);
    return Promise.resolve();
  }

  listMounts(path: string): Promise<readonly string[]> {
    return Promise.resolve([...this.mounts.keys()].filter((point) => isAtOrBelow(point, path)));
  }

  publish(path: string, files: ReadonlyMap<string, VolumeFile>): Promise<boolean> {
    const current = this.published.get(path);
    const isCurrent =
      current?.size === files.size &&
      [...files].every(([name, file]) => isSame(current.get(name), file));
    this.published.set(path, new Map(files));
    return Promise.resolve(!isCurrent);
  }

  usedBytes(paths: readonly string[]): Promise<ReadonlyMap<string, number>> {
    this.walks += 1;
    const known = paths.filter((path) => this.#used.has(path) || this.directories.has(path));
    return Promise.resolve(new Map(known.map((path) => [path, this.#used.get(path) ?? 0])));
  }

  readKind(path: string): Promise<PathKind | undefined> {
    const isDirectory = this.directories.has(path);
    return Promise.resolve(this.#kinds.get(path) ?? (isDirectory ? "Directory" : undefined));
  }
}

export function createFakeVolumeDisk(): FakeVolumeDisk {
  return new MemoryDisk();
}
