// SPDX-License-Identifier: Apache-2.0
// Stops pulls whose layers would fill the disk. Measures the layers only if the free space is low or has decreased.
import { printBytes, type DiskSpace } from "../volumes/storage/limits.ts";
import { fullReference, type UnpackingLayer } from "@patchbay/containerd";
import { AppError, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";

const IMAGE_SHARE = 0.25;
// The largest pull is stopped when free space is below both limits. Pods are evicted at half of these limits.
const LOW_SHARE = 0.1;
const LOW_BYTES = 2 * 2 ** 30;

function computeImageLimitBytes({ sizeBytes }: DiskSpace): number {
  return Math.floor(sizeBytes * IMAGE_SHARE);
}

export function isLowForImages({ sizeBytes, freeBytes }: DiskSpace): boolean {
  return freeBytes < Math.min(sizeBytes * LOW_SHARE, LOW_BYTES);
}

/** Unpacked bytes of the running pulls, by reference; 0 when unknown. */
type UnpackedBytes = ReadonlyMap<string, number>;

function findLargestPulls(unpackedBytes: UnpackedBytes): readonly string[] {
  const largestBytes = Math.max(...unpackedBytes.values());
  return [...unpackedBytes]
    .filter(([, bytes]) => bytes === largestBytes)
    .map(([reference]) => reference);
}

/** Returns the pulls to stop, with reasons: pulls above the size limit, otherwise the largest pulls if the disk is nearly full. */
export function selectPullsToStop(
  unpackedBytes: UnpackedBytes,
  disk: DiskSpace,
): ReadonlyMap<string, string> {
  const limit = computeImageLimitBytes(disk);
  const oversizedPulls = [...unpackedBytes].filter(([, bytes]) => bytes > limit);
  if (oversizedPulls.length > 0) {
    const diskSize = printBytes(disk.sizeBytes);
    const reason = `it unpacks to more than ${printBytes(limit)}, a quarter of the node's disk of ${diskSize}`;
    return new Map(oversizedPulls.map(([reference]) => [reference, reason]));
  }
  if (!isLowForImages(disk)) return new Map();
  const [freeSpace, diskSize] = [disk.freeBytes, disk.sizeBytes].map(printBytes);
  const reason = `the node's disk is nearly full: ${freeSpace ?? ""} of ${diskSize ?? ""} are left`;
  return new Map(findLargestPulls(unpackedBytes).map((reference) => [reference, reason]));
}

const DISK_CHECK_INTERVAL_MS = 250;
/** Minimum decrease of free space, in bytes, that triggers a measurement of layers. Smaller decreases are regarded as normal writes. */
const NORMAL_WRITES_BYTES = 32 * 2 ** 20;

export interface PullGuard {
  /** @throws AppError with RUNTIME_IMAGE_TOO_LARGE when the guard stops the pull; otherwise the error of `pull` */
  run<T>(reference: string, pull: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

interface GuardDeps {
  readonly files: Pick<Files, "readSpace">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly imagesDir: string;
  readonly listUnpacking: () => Promise<readonly UnpackingLayer[]>;
  readonly signal: AbortSignal;
}

interface RunningPull {
  readonly reference: string;
  readonly stop: AbortController;
}

function expandReference(reference: string): string {
  try {
    return fullReference(reference);
  } catch {
    return reference; // Unchanged, because an invalid reference matches no image.
  }
}

class GuardedPulls implements PullGuard {
  readonly #deps: GuardDeps;
  readonly #pulls = new Set<RunningPull>();
  /** Layers of running pulls, by snapshot key. Includes completely unpacked layers, which containerd no longer lists. */
  readonly #layers = new Map<string, UnpackingLayer>();
  #isWatching = false;
  #freeBytes = Infinity;

  constructor(deps: GuardDeps) {
    this.#deps = deps;
  }

  async run<T>(reference: string, pull: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const currentPull: RunningPull = {
      reference: expandReference(reference),
      stop: new AbortController(),
    };
    const { signal } = currentPull.stop;
    this.#pulls.add(currentPull);
    if (!this.#isWatching) void this.#watchDisk();
    try {
      return await pull(signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      this.#pulls.delete(currentPull);
    }
  }

  async #watchDisk(): Promise<void> {
    const { clock, log, signal } = this.#deps;
    this.#isWatching = true;
    while (this.#pulls.size > 0 && !signal.aborted) {
      try {
        await this.#checkDisk();
      } catch (error) {
        log.warn("sizes of running pulls cannot be checked", { reason: messageOf(error) });
      }
      await clock.sleep(DISK_CHECK_INTERVAL_MS, signal).catch(() => undefined);
    }
    this.#isWatching = false;
    this.#layers.clear();
    this.#freeBytes = Infinity;
  }

  async #checkDisk(): Promise<void> {
    const { files, imagesDir, listUnpacking } = this.#deps;
    const disk = await files.readSpace(imagesDir);
    const hasSpaceDropped = this.#freeBytes - disk.freeBytes >= NORMAL_WRITES_BYTES;
    if (!hasSpaceDropped && !isLowForImages(disk)) {
      this.#freeBytes = Math.max(this.#freeBytes, disk.freeBytes); // The next drop is computed from this maximum.
      return;
    }
    this.#freeBytes = disk.freeBytes;
    for (const layer of await listUnpacking()) this.#layers.set(layer.key, layer);
    for (const [reference, reason] of selectPullsToStop(this.#sumUnpackedBytes(), disk)) {
      this.#stop(reference, reason);
    }
  }

  #sumUnpackedBytes(): ReadonlyMap<string, number> {
    const amounts = new Map([...this.#pulls].map((pull) => [pull.reference, 0]));
    for (const [key, { reference = "", bytes }] of this.#layers) {
      const previousBytes = amounts.get(reference);
      if (previousBytes === undefined) this.#layers.delete(key);
      else amounts.set(reference, previousBytes + bytes);
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

export const NO_PULL_GUARD: PullGuard = {
  run: (_reference, pull) => pull(new AbortController().signal),
};

export function createPullGuard(deps: GuardDeps): PullGuard {
  return new GuardedPulls(deps);
}
