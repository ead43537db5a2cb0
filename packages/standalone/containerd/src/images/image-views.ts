// SPDX-License-Identifier: Apache-2.0
// Mounts images read-only. Each mount has its own snapshot, whose name is the mount's path.
import { AppError, isAppError } from "@patchbay/base";
import { ctr } from "../ctr.ts";
import { isMountPoint } from "../leftovers/mounts.ts";
import { findImage, readSnapshotter, type ImageDeps } from "./images.ts";
import { fullReference } from "./reference.ts";

const TIMEOUT_MS = 30_000;
/** Mount options that make an image read-only, and its programs not executable. Source: KEP-4639. */
const MOUNT_OPTIONS = "remount,bind,ro,nosuid,nodev,noexec";
/** Label that protects a snapshot from garbage collection. ctr's lease protects it only for one day. Source: containerd. */
const GC_ROOT_LABEL = "containerd.io/gc.root";

export interface ImageMounts {
  /** Mounts an image at an existing path. Idempotent. @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_NAME_INVALID, CONTAINERD_FAILED */
  mount(reference: string, path: string): Promise<void>;
  unmount(path: string): Promise<void>;
}

export function createImageMounts(deps: ImageDeps): ImageMounts {
  return new SnapshotMounts(deps);
}

function isMissing(error: unknown): boolean {
  return isAppError(error, "CONTAINERD_FAILED") && error.message.includes("not found");
}

class SnapshotMounts implements ImageMounts {
  readonly #deps: ImageDeps;
  /** Paths of mounts that this process has completed. A mount that an earlier process began may be incomplete. */
  readonly #completed = new Set<string>();

  constructor(deps: ImageDeps) {
    this.#deps = deps;
  }

  async mount(reference: string, path: string): Promise<void> {
    const isMounted = await this.#isMounted(path);
    if (isMounted && this.#completed.has(path)) return;
    const name = fullReference(reference);
    if (!isMounted) await this.#mount(name, path);
    try {
      await this.#finish(path);
    } catch (error) {
      if (!isMissing(error)) throw error;
      // The snapshot is missing, for example because a concurrent call removed it. Mounts the image again.
      await this.unmount(path);
      await this.#mount(name, path);
      await this.#finish(path);
    }
    this.#completed.add(path);
  }

  async unmount(path: string): Promise<void> {
    this.#completed.delete(path);
    if (await this.#isMounted(path)) {
      const argv = ["umount", "--lazy", path] as const;
      await this.#deps.runner.run({ argv, timeoutMs: TIMEOUT_MS });
    }
    await this.#removeSnapshot(path);
  }

  async #isMounted(path: string): Promise<boolean> {
    const mountinfo = (await this.#deps.files.readText("/proc/self/mountinfo")) ?? "";
    return isMountPoint(mountinfo, path);
  }

  /** Mounts the image. Looks the image up only if mounting fails, because each lookup delays the start of a pod. */
  async #mount(name: string, path: string): Promise<void> {
    const mount = async (): Promise<string> =>
      ctr(this.#deps, ["images", "mount", ...(await this.#snapshotterFlags()), name, path]);
    try {
      await mount();
    } catch {
      if ((await findImage(this.#deps, name)) === undefined) {
        throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
      }
      await this.#removeSnapshot(path);
      await mount();
    }
  }

  async #finish(path: string): Promise<void> {
    const argv = ["mount", "-o", MOUNT_OPTIONS, path] as const;
    const { exitCode, stderr } = await this.#deps.runner.run({ argv, timeoutMs: TIMEOUT_MS });
    if (exitCode !== 0) {
      throw new AppError("OS_PROGRAM_FAILED", { program: "mount", exitCode, stderr });
    }
    await this.#snapshots("label", path, `${GC_ROOT_LABEL}=shown`);
  }

  async #removeSnapshot(path: string): Promise<void> {
    await this.#ignoreMissing(() => this.#snapshots("rm", path));
    await this.#ignoreMissing(() => ctr(this.#deps, ["leases", "rm", path]));
  }

  async #snapshots(...args: readonly string[]): Promise<void> {
    await ctr(this.#deps, ["snapshots", ...(await this.#snapshotterFlags()), ...args]);
  }

  async #snapshotterFlags(): Promise<readonly string[]> {
    return ["--snapshotter", await readSnapshotter(this.#deps.files, this.#deps.layout)];
  }

  async #ignoreMissing(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
