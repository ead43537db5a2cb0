// SPDX-License-Identifier: Apache-2.0
// Stops pulls whose layers would fill the disk. While a pull is under way the disk is asked often how full it is, which costs
// nothing; what comes out of whose layers is asked only when that says that something has.
import { fullReference, type UnpackingLayer } from "@patchbay/containerd";
import { AppError, messageOf } from "@patchbay/core";
import type { Clock, Files, Logger } from "@patchbay/core/ports";
import { isLowForImages, pullsToStop } from "./pull-limits.ts";

/** How often the disk is asked, milliseconds. */
const LOOK_MS = 250;
/** Less is written at any time by anybody, bytes. */
const WRITTEN_BYTES = 32 * 2 ** 20;

/** Watches pulls. */
export interface PullGuard {
  /**
   * Does the pull, which ends when the signal is aborted.
   * @throws AppError with RUNTIME_IMAGE_TOO_LARGE when it was stopped, and what the pull throws
   */
  run<T>(reference: string, pull: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

/** The machine. */
export interface GuardDeps {
  readonly files: Pick<Files, "space">;
  readonly clock: Clock;
  readonly log: Logger;
  /** On the file system of the images. */
  readonly imagesDir: string;
  readonly listUnpacking: () => Promise<readonly UnpackingLayer[]>;
  /** Ends the watch. */
  readonly signal: AbortSignal;
}

interface Pull {
  readonly reference: string;
  readonly stop: AbortController;
}

function wholeName(reference: string): string {
  try {
    return fullReference(reference);
  } catch {
    return reference; // no image has such a name
  }
}

class WatchedPulls implements PullGuard {
  readonly #deps: GuardDeps;
  readonly #pulls = new Set<Pull>();
  /** By key: a layer that is done is not told any more. */
  readonly #layers = new Map<string, UnpackingLayer>();
  #isLooking = false;
  #freeBytes = Infinity;

  constructor(deps: GuardDeps) {
    this.#deps = deps;
  }

  async run<T>(reference: string, pull: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const own: Pull = { reference: wholeName(reference), stop: new AbortController() };
    const { signal } = own.stop;
    this.#pulls.add(own);
    if (!this.#isLooking) void this.#keepLooking();
    try {
      return await pull(signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      this.#pulls.delete(own);
    }
  }

  async #keepLooking(): Promise<void> {
    const { clock, log, signal } = this.#deps;
    this.#isLooking = true;
    while (this.#pulls.size > 0 && !signal.aborted) {
      try {
        await this.#look();
      } catch (error) {
        log.warn("pulls are not watched", { reason: messageOf(error) });
      }
      await clock.sleep(LOOK_MS, signal).catch(() => undefined); // the program ends
    }
    this.#isLooking = false;
    this.#layers.clear();
    this.#freeBytes = Infinity;
  }

  async #look(): Promise<void> {
    const { files, imagesDir, listUnpacking } = this.#deps;
    const disk = await files.space(imagesDir);
    const isWritten = this.#freeBytes - disk.freeBytes >= WRITTEN_BYTES;
    if (!isWritten && !isLowForImages(disk)) {
      this.#freeBytes = Math.max(this.#freeBytes, disk.freeBytes); // somebody has removed something
      return;
    }
    this.#freeBytes = disk.freeBytes;
    for (const layer of await listUnpacking()) this.#layers.set(layer.key, layer);
    for (const [reference, reason] of pullsToStop(this.#unpacked(), disk)) {
      this.#stop(reference, reason);
    }
  }

  /** What has come out of each pull that is under way. */
  #unpacked(): ReadonlyMap<string, number> {
    const amounts = new Map([...this.#pulls].map((pull) => [pull.reference, 0]));
    for (const [key, { reference = "", bytes }] of this.#layers) {
      const before = amounts.get(reference);
      if (before === undefined) this.#layers.delete(key);
      else amounts.set(reference, before + bytes);
    }
    return amounts;
  }

  #stop(reference: string, reason: string): void {
    this.#deps.log.warn("pull is stopped", { object: reference, reason });
    for (const pull of this.#pulls) {
      if (pull.reference !== reference) continue;
      pull.stop.abort(new AppError("RUNTIME_IMAGE_TOO_LARGE", { reason }));
    }
    for (const [key, layer] of this.#layers) {
      if (layer.reference === reference) this.#layers.delete(key);
    }
  }
}

/** Lets every pull be, where nobody can tell what comes out of it. */
export const NO_PULL_GUARD: PullGuard = {
  run: (_reference, pull) => pull(new AbortController().signal),
};

/** Watches while pulls are under way. */
export function createPullGuard(deps: GuardDeps): PullGuard {
  return new WatchedPulls(deps);
}
