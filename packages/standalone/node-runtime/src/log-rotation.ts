// SPDX-License-Identifier: Apache-2.0
import { basename, dirname, join } from "node:path";
import { isAppError, type Clock, type Logger } from "@patchbay/base";
import { printTime } from "@patchbay/kube";
import { renameFile, readFileSize, watchFile } from "@patchbay/os";
import type { ContainerRuntime, ContainerSummary, Files } from "@patchbay/core/interfaces";
import { findPodUid } from "./translate/labels.ts";

interface LogBounds {
  /** Size above which a file is rotated. Source: containerLogMaxSize of the kubelet. */
  readonly bytesMax: number;
  /** Maximum number of log files per container run, at least 2. Source: containerLogMaxFiles of the kubelet. */
  readonly filesMax: number;
}

/** Defaults of Kubernetes: 50 MiB in total for each run of a container. */
const LOG_BOUNDS: LogBounds = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

/** Returns whether the file was rotated. The names of rotated files end with the digits of a time, so they sort by age. */
function isRotated(name: string, base: string): boolean {
  return name.startsWith(`${base}.`) && /^\d+$/.test(name.slice(base.length + 1));
}

interface Rotation {
  readonly newName: string;
  readonly staleNames: readonly string[];
}

/** Returns the new name of the current file and the files to remove. `time` is the current time in RFC 3339 format. */
export function planRotation(
  names: readonly string[],
  base: string,
  { time, filesMax }: { readonly time: string; readonly filesMax: number },
): Rotation {
  const rotatedNames = names.filter((name) => isRotated(name, base)).sort();
  const newest = rotatedNames.at(-1) ?? "";
  const preferredName = `${base}.${time.replace(/\D/g, "")}`;
  // The newest file must sort last even if the clock was set back.
  const newName = preferredName > newest ? preferredName : `${newest}0`;
  const retainedCount = Math.max(filesMax - 2, 0);
  return {
    newName,
    staleNames: rotatedNames.slice(0, Math.max(0, rotatedNames.length - retainedCount)),
  };
}

export function selectStaleLogs(
  names: readonly string[],
  baseNames: readonly string[],
): readonly string[] {
  const isListed = (name: string): boolean =>
    baseNames.some((base) => name === base || isRotated(name, base));
  return names.filter((name) => /^\d+\.log(\.\d+)?$/.test(name) && !isListed(name));
}

const CHECK_INTERVAL_MS = { min: 20, max: 500 };

interface Growth {
  readonly bytes: number;
  readonly tookMs: number;
  readonly remainingBytes: number;
}

/** Returns the time until the log reaches its size limit at its current growth rate, clamped to the bounds of CHECK_INTERVAL_MS. */
export function computeNextCheckMs({ bytes, tookMs, remainingBytes }: Growth): number {
  if (bytes <= 0 || tookMs <= 0) return CHECK_INTERVAL_MS.max;
  const untilFullMs = (remainingBytes * tookMs) / bytes;
  return Math.min(Math.max(untilFullMs, CHECK_INTERVAL_MS.min), CHECK_INTERVAL_MS.max);
}

interface LogRotationDeps {
  readonly runtime: ContainerRuntime;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly bounds?: LogBounds;
}

const ROTATION_RETRY_INTERVAL_MS = 10_000;

interface ContainerRun {
  readonly id: string;
  readonly path: string;
  /** Stops the rotation of this log. Set while the container runs. */
  stop: AbortController | undefined;
  readonly previousGrowth: { bytes: number; atMs: number };
}

/** Waits until the file changes. Resolves immediately if the file's size is not `size`. */
async function waitForChange(
  path: string,
  size: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const finished = new AbortController();
  const finish = (): void => {
    resolve(undefined);
  };
  const stopSignal = AbortSignal.any([signal, finished.signal]);
  stopSignal.addEventListener("abort", finish, { once: true });
  watchFile(path, finish, stopSignal);
  if ((await readFileSize(path)) !== size) finish();
  await promise;
  finished.abort();
}

class LogRotator {
  readonly #deps: LogRotationDeps;
  readonly #bounds: LogBounds;
  readonly #signal: AbortSignal;
  readonly #runs = new Map<string, ContainerRun>();
  #isObserving = false;
  #isObservationDue = false;

  constructor(deps: LogRotationDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#bounds = deps.bounds ?? LOG_BOUNDS;
    this.#signal = signal;
  }

  readonly observe = (): void => {
    this.#isObservationDue = true;
    if (!this.#isObserving) void this.#observeWhileDue();
  };

  async #observeWhileDue(): Promise<void> {
    this.#isObserving = true;
    while (this.#isObservationDue && !this.#signal.aborted) {
      this.#isObservationDue = false;
      try {
        await this.#observeOnce();
      } catch (error) {
        // Logs no warning if the runtime is unavailable: when it responds again, the watch triggers another observation.
        if (!isAppError(error, "CRI_UNAVAILABLE")) {
          this.#deps.log.warn("container logs cannot be rotated", { err: error });
        }
      }
    }
    this.#isObserving = false;
  }

  async #observeOnce(): Promise<void> {
    const isFirst = this.#runs.size === 0;
    const ids = await this.#startRotation();
    const removedRuns = [...this.#runs.values()].filter(({ id }) => !ids.has(id));
    for (const { id, stop } of removedRuns) {
      stop?.abort();
      this.#runs.delete(id);
    }
    const affectedRuns = isFirst ? [...this.#runs.values()] : removedRuns;
    for (const directory of new Set(affectedRuns.map(({ path }) => dirname(path)))) {
      await this.#removeStaleLogs(directory);
    }
  }

  async #startRotation(): Promise<ReadonlySet<string>> {
    const containers = await this.#deps.runtime.listContainers();
    const ownContainers = containers.filter(({ labels }) => findPodUid(labels) !== undefined);
    for (const container of ownContainers) await this.#startOrStop(container);
    return new Set(ownContainers.map(({ id }) => id));
  }

  async #startOrStop({ id, state }: ContainerSummary): Promise<void> {
    let run = this.#runs.get(id);
    if (run === undefined) {
      const path = (await this.#deps.runtime.findContainer(id))?.logPath ?? "";
      if (path === "") return;
      run = { id, path, stop: undefined, previousGrowth: { bytes: 0, atMs: 0 } };
      this.#runs.set(id, run);
    }
    const isRunning = state === "RUNNING";
    if (isRunning && run.stop === undefined) {
      run.stop = new AbortController();
      void this.#rotateWhileRunning(run, AbortSignal.any([this.#signal, run.stop.signal]));
    } else if (!isRunning) {
      run.stop?.abort();
      run.stop = undefined;
    }
  }

  async #removeStaleLogs(directory: string): Promise<void> {
    const { files } = this.#deps;
    const fileNames = await files.list(directory);
    // Updates `#runs` after the listing, so that the log of a container that has just started does not count as stale.
    await this.#startRotation();
    const baseNames = [...this.#runs.values()]
      .filter(({ path }) => dirname(path) === directory)
      .map(({ path }) => basename(path));
    for (const name of selectStaleLogs(fileNames, baseNames)) {
      await files.remove(join(directory, name));
    }
  }

  async #rotateWhileRunning(run: ContainerRun, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#rotateIfFull(run, signal).catch((error: unknown) =>
        this.#waitAfterFailure(run, signal, error),
      );
    }
  }

  async #rotateIfFull(run: ContainerRun, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const { bytesMax } = this.#bounds;
    const size = await readFileSize(run.path);
    const bytes = size ?? 0;
    const isFull = bytes > bytesMax;
    const growth = {
      bytes: bytes - run.previousGrowth.bytes,
      tookMs: clock.monotonicMs() - run.previousGrowth.atMs,
    };
    if (isFull) await this.#rotate(run);
    else if (growth.bytes === 0) await waitForChange(run.path, size, signal);
    run.previousGrowth.bytes = isFull ? 0 : bytes;
    run.previousGrowth.atMs = clock.monotonicMs();
    await clock.sleep(
      computeNextCheckMs({ ...growth, remainingBytes: bytesMax - run.previousGrowth.bytes }),
      signal,
    );
  }

  async #waitAfterFailure(
    { path }: ContainerRun,
    signal: AbortSignal,
    error: unknown,
  ): Promise<void> {
    if (signal.aborted) return;
    const { clock, log } = this.#deps;
    log.warn("container log cannot be rotated", { path, err: error });
    await clock.sleep(ROTATION_RETRY_INTERVAL_MS, signal).catch(() => undefined);
  }

  async #rotate({ id, path }: ContainerRun): Promise<void> {
    const { clock, files, runtime } = this.#deps;
    const directory = dirname(path);
    const time = printTime(clock.now());
    const names = await files.list(directory);
    const plan = planRotation(names, basename(path), { time, filesMax: this.#bounds.filesMax });
    const rotatedPath = join(directory, plan.newName);
    await renameFile(path, rotatedPath);
    try {
      await runtime.reopenLog(id);
    } catch (error) {
      // If no new file exists, the runtime still writes to the renamed file. Restores that file's old name.
      if ((await readFileSize(path)) === undefined) await renameFile(rotatedPath, path);
      throw error;
    }
    for (const name of plan.staleNames) await files.remove(join(directory, name));
  }
}

/** Rotates container logs until the signal is aborted. Checks fast-growing logs more often. */
export function rotateLogs(deps: LogRotationDeps, signal: AbortSignal): void {
  const rotator = new LogRotator(deps, signal);
  deps.runtime.watch(rotator.observe, signal);
  rotator.observe();
}
