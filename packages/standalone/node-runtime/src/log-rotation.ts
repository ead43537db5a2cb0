// SPDX-License-Identifier: Apache-2.0
import { basename, dirname, join } from "node:path";
import { isAppError, type Clock, type Logger } from "@patchbay/base";
import { printTime } from "@patchbay/kube";
import { renameFile, readFileSize, watchFile } from "@patchbay/os";
import type { ContainerRuntime, ContainerSummary, Files } from "@patchbay/core/interfaces";
import { findPodUid } from "./translate/labels.ts";

interface LogBounds {
  /** Size above which a file is rotated, bytes. Source: Kubernetes kubelet, containerLogMaxSize. */
  readonly bytesMax: number;
  /** Files per container run, including the current one; at least 2. Source: kubelet, containerLogMaxFiles. */
  readonly filesMax: number;
}

/** Kubernetes' defaults: 50 MiB for each run of a container. */
const LOG_BOUNDS: LogBounds = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

/** Rotated names end with digits of a time, so that they sort by age. */
function isRotated(name: string, base: string): boolean {
  return name.startsWith(`${base}.`) && /^\d+$/.test(name.slice(base.length + 1));
}

interface Rotation {
  readonly to: string;
  readonly remove: readonly string[];
}

/** `time` is now, RFC 3339. */
export function planRotation(
  names: readonly string[],
  base: string,
  { time, filesMax }: { readonly time: string; readonly filesMax: number },
): Rotation {
  const rotated = names.filter((name) => isRotated(name, base)).sort();
  const newest = rotated.at(-1) ?? "";
  const wanted = `${base}.${time.replace(/\D/g, "")}`;
  // The newest file must sort last even if the clock was set back.
  const to = wanted > newest ? wanted : `${newest}0`;
  const retained = Math.max(filesMax - 2, 0);
  return { to, remove: rotated.slice(0, Math.max(0, rotated.length - retained)) };
}

export function selectStaleLogs(
  names: readonly string[],
  bases: readonly string[],
): readonly string[] {
  const isListed = (name: string): boolean =>
    bases.some((base) => name === base || isRotated(name, base));
  return names.filter((name) => /^\d+\.log(\.\d+)?$/.test(name) && !isListed(name));
}

const CHECK_INTERVAL_MS = { least: 20, most: 500 };

interface Growth {
  readonly bytes: number;
  readonly tookMs: number;
  readonly remainingBytes: number;
}

/** The log is checked before it reaches its limit at the current rate. */
export function nextCheckMs({ bytes, tookMs, remainingBytes }: Growth): number {
  if (bytes <= 0 || tookMs <= 0) return CHECK_INTERVAL_MS.most;
  const untilFullMs = (remainingBytes * tookMs) / bytes;
  return Math.min(Math.max(untilFullMs, CHECK_INTERVAL_MS.least), CHECK_INTERVAL_MS.most);
}

interface LogRotationDeps {
  readonly runtime: ContainerRuntime;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly bounds?: LogBounds;
}

const ROTATION_RETRY_INTERVAL_MS = 10_000;

interface Run {
  readonly id: string;
  readonly path: string;
  /** Set while the container runs. */
  stop: AbortController | undefined;
  readonly previousGrowth: { bytes: number; atMs: number };
}

/** Resolves at once if the file has already changed. */
async function waitForChange(
  path: string,
  size: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const done = new AbortController();
  const changed = (): void => {
    resolve(undefined);
  };
  const stopSignal = AbortSignal.any([signal, done.signal]);
  stopSignal.addEventListener("abort", changed, { once: true });
  watchFile(path, changed, stopSignal);
  if ((await readFileSize(path)) !== size) changed();
  await promise;
  done.abort();
}

class LogRotator {
  readonly #deps: LogRotationDeps;
  readonly #bounds: LogBounds;
  readonly #signal: AbortSignal;
  readonly #runs = new Map<string, Run>();
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
        // The runtime reports again when it is back.
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
    const removed = [...this.#runs.values()].filter(({ id }) => !ids.has(id));
    for (const { id, stop } of removed) {
      stop?.abort();
      this.#runs.delete(id);
    }
    const touched = isFirst ? [...this.#runs.values()] : removed;
    for (const directory of new Set(touched.map(({ path }) => dirname(path)))) {
      await this.#removeStaleLogs(directory);
    }
  }

  async #startRotation(): Promise<ReadonlySet<string>> {
    const all = await this.#deps.runtime.listContainers();
    const ownContainers = all.filter(({ labels }) => findPodUid(labels) !== undefined);
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
    const present = await files.list(directory);
    // A container that started meanwhile may already have a log.
    await this.#startRotation();
    const listed = [...this.#runs.values()]
      .filter(({ path }) => dirname(path) === directory)
      .map(({ path }) => basename(path));
    for (const name of selectStaleLogs(present, listed)) {
      await files.remove(join(directory, name));
    }
  }

  async #rotateWhileRunning(run: Run, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#rotateIfFull(run, signal).catch((error: unknown) =>
        this.#pause(run, signal, error),
      );
    }
  }

  async #rotateIfFull(run: Run, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const { bytesMax } = this.#bounds;
    const size = await readFileSize(run.path);
    const bytes = size ?? 0;
    const isFull = bytes > bytesMax;
    const grown = {
      bytes: bytes - run.previousGrowth.bytes,
      tookMs: clock.monotonicMs() - run.previousGrowth.atMs,
    };
    if (isFull) await this.#rotate(run);
    else if (grown.bytes === 0) await waitForChange(run.path, size, signal);
    run.previousGrowth.bytes = isFull ? 0 : bytes;
    run.previousGrowth.atMs = clock.monotonicMs();
    await clock.sleep(
      nextCheckMs({ ...grown, remainingBytes: bytesMax - run.previousGrowth.bytes }),
      signal,
    );
  }

  async #pause({ path }: Run, signal: AbortSignal, error: unknown): Promise<void> {
    if (signal.aborted) return;
    const { clock, log } = this.#deps;
    log.warn("container log cannot be rotated", { path, err: error });
    await clock.sleep(ROTATION_RETRY_INTERVAL_MS, signal).catch(() => undefined);
  }

  async #rotate({ id, path }: Run): Promise<void> {
    const { clock, files, runtime } = this.#deps;
    const directory = dirname(path);
    const time = printTime(clock.now());
    const names = await files.list(directory);
    const plan = planRotation(names, basename(path), { time, filesMax: this.#bounds.filesMax });
    const moved = join(directory, plan.to);
    await renameFile(path, moved);
    try {
      await runtime.reopenLog(id);
    } catch (error) {
      // The runtime still writes to the moved file unless it has created a new one.
      if ((await readFileSize(path)) === undefined) await renameFile(moved, path);
      throw error;
    }
    for (const name of plan.remove) await files.remove(join(directory, name));
  }
}

/** A quiet log is only watched; a growing one is checked sooner the faster it grows. */
export function rotateLogs(deps: LogRotationDeps, signal: AbortSignal): void {
  const rotator = new LogRotator(deps, signal);
  deps.runtime.watch(rotator.observe, signal);
  rotator.observe();
}
