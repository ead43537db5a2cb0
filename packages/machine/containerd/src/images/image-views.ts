// SPDX-License-Identifier: Apache-2.0
// How are an image's files shown in a directory of the machine? As a snapshot that only this view uses, read-only.
import { AppError, isAppError } from "@patchbay/core";
import { ctr } from "../ctr.ts";
import { isMountPoint } from "../leftovers/mounts.ts";
import { findImage, readSnapshotter, type ImageDeps } from "./images.ts";
import { fullReference } from "./reference.ts";

const TIMEOUT_MS = 30_000;
/** Nothing of an image gives rights, is a device or is run. Source: KEP-4639. */
const OPTIONS = "remount,bind,ro,nosuid,nodev,noexec";
/** Keeps a snapshot beyond the day that ctr gives it. Source: containerd, garbage collection. */
const KEEP_LABEL = "containerd.io/gc.root";

/** Read-only views of images' files. */
export interface ImageViews {
  /**
   * Mounts the image's files at the directory, which must be there; again without complaint.
   * @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_NAME_INVALID, CONTAINERD_FAILED
   */
  show(reference: string, path: string): Promise<void>;
  /** Gives back what `show` took; not there is success. */
  release(path: string): Promise<void>;
}

/** Views of a containerd's images; the snapshot of a view has its path's name. */
export function createImageViews(deps: ImageDeps): ImageViews {
  return new Views(deps);
}

/** Whether containerd has nothing of that name. */
function isMissing(error: unknown): boolean {
  return isAppError(error, "CONTAINERD_FAILED") && error.message.includes("not found");
}

class Views implements ImageViews {
  readonly #deps: ImageDeps;
  /** Those that this process has seen to the end: what another one began may be half done. */
  readonly #shown = new Set<string>();

  constructor(deps: ImageDeps) {
    this.#deps = deps;
  }

  async show(reference: string, path: string): Promise<void> {
    const isMounted = await this.#isMounted(path);
    if (isMounted && this.#shown.has(path)) return;
    const name = fullReference(reference);
    if (!isMounted) await this.#mount(name, path);
    try {
      await this.#finish(path);
    } catch (error) {
      if (!isMissing(error)) throw error;
      // Two began the view, the second of them cleared away what the first then mounted: there is no snapshot behind it.
      await this.release(path);
      await this.#mount(name, path);
      await this.#finish(path);
    }
    this.#shown.add(path);
  }

  async release(path: string): Promise<void> {
    this.#shown.delete(path);
    if (await this.#isMounted(path)) {
      const argv = ["umount", "--lazy", path] as const;
      await this.#deps.runner.run({ argv, timeoutMs: TIMEOUT_MS });
    }
    await this.#forget(path);
  }

  async #isMounted(path: string): Promise<boolean> {
    const mountinfo = (await this.#deps.files.readText("/proc/self/mountinfo")) ?? "";
    return isMountPoint(mountinfo, path);
  }

  /** Tried first: each question beforehand is a program of its own, and a pod waits for it. */
  async #mount(name: string, path: string): Promise<void> {
    const mount = async (): Promise<string> =>
      ctr(this.#deps, ["images", "mount", ...(await this.#flags()), name, path]);
    try {
      await mount();
    } catch {
      if ((await findImage(this.#deps, name)) === undefined) {
        throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
      }
      // Of a view that was mounted before the machine started anew.
      await this.#forget(path);
      await mount();
    }
  }

  async #finish(path: string): Promise<void> {
    const argv = ["mount", "-o", OPTIONS, path] as const;
    const { exitCode, stderr } = await this.#deps.runner.run({ argv, timeoutMs: TIMEOUT_MS });
    if (exitCode !== 0) {
      throw new AppError("OS_PROGRAM_FAILED", { program: "mount", exitCode, stderr });
    }
    await this.#snapshots("label", path, `${KEEP_LABEL}=shown`);
  }

  /** Removes the snapshot and what ctr keeps it by. */
  async #forget(path: string): Promise<void> {
    await this.#unlessMissing(() => this.#snapshots("rm", path));
    await this.#unlessMissing(() => ctr(this.#deps, ["leases", "rm", path]));
  }

  async #snapshots(...args: readonly string[]): Promise<void> {
    await ctr(this.#deps, ["snapshots", ...(await this.#flags()), ...args]);
  }

  async #flags(): Promise<readonly string[]> {
    return ["--snapshotter", await readSnapshotter(this.#deps.files, this.#deps.layout)];
  }

  async #unlessMissing(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
