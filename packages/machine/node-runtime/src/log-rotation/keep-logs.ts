// SPDX-License-Identifier: Apache-2.0
// Keeps the logs of this node's containers short: rotates those that run, removes those of runs that are gone. A quiet
// log costs nothing: it is watched; one that is written is looked at, the faster it grows the sooner.
import { basename, dirname, join } from "node:path";
import { isAppError } from "@patchbay/core";
import { printTime } from "@patchbay/kube";
import { renameFile, sizeOfFile, watchFile } from "@patchbay/os";
import type {
  Clock,
  ContainerRuntime,
  ContainerSummary,
  Files,
  Logger,
} from "@patchbay/core/ports";
import { podUidOf } from "../translate/labels.ts";
import { forgottenLogs, LOG_BOUNDS, nextLookMs, planRotation, type LogBounds } from "./plan.ts";

/** What logs are kept with. */
export interface LogKeeping {
  readonly runtime: ContainerRuntime;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absent: {@link LOG_BOUNDS}. */
  readonly bounds?: LogBounds;
}

/** How long a rotation that failed is left alone, milliseconds. */
const PAUSE_MS = 10_000;

/** One run of a container. */
interface Run {
  readonly id: string;
  readonly path: string;
  /** Set while it runs. */
  stop: AbortController | undefined;
  /** At the last look. */
  readonly seen: { bytes: number; atMs: number };
}

/** Resolves when the file has another size than that, or is another one; at once where it has. */
async function changeOf(
  path: string,
  size: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const done = new AbortController();
  const changed = (): void => {
    resolve(undefined);
  };
  const until = AbortSignal.any([signal, done.signal]);
  until.addEventListener("abort", changed, { once: true });
  watchFile(path, changed, until);
  if ((await sizeOfFile(path)) !== size) changed();
  await promise;
  done.abort();
}

class LogKeeper {
  readonly #deps: LogKeeping;
  readonly #bounds: LogBounds;
  readonly #signal: AbortSignal;
  readonly #runs = new Map<string, Run>();
  #isLooking = false;
  #isLookDue = false;

  constructor(deps: LogKeeping, signal: AbortSignal) {
    this.#deps = deps;
    this.#bounds = deps.bounds ?? LOG_BOUNDS;
    this.#signal = signal;
  }

  /** Looks at what the runtime has, again where something changed meanwhile. */
  readonly look = (): void => {
    this.#isLookDue = true;
    if (!this.#isLooking) void this.#lookWhileDue();
  };

  async #lookWhileDue(): Promise<void> {
    this.#isLooking = true;
    while (this.#isLookDue && !this.#signal.aborted) {
      this.#isLookDue = false;
      try {
        await this.#lookOnce();
      } catch (error) {
        // A runtime that is away tells when it is back.
        if (!isAppError(error, "CRI_UNAVAILABLE")) {
          this.#deps.log.warn("logs of containers cannot be rotated", { err: error });
        }
      }
    }
    this.#isLooking = false;
  }

  async #lookOnce(): Promise<void> {
    const isFirst = this.#runs.size === 0;
    const ids = await this.#takeAll();
    const gone = [...this.#runs.values()].filter(({ id }) => !ids.has(id));
    for (const { id, stop } of gone) {
      stop?.abort();
      this.#runs.delete(id);
    }
    const touched = isFirst ? [...this.#runs.values()] : gone;
    for (const directory of new Set(touched.map(({ path }) => dirname(path)))) {
      await this.#forget(directory);
    }
  }

  /** Takes what the runtime has of this node's pods; their ids. */
  async #takeAll(): Promise<ReadonlySet<string>> {
    const all = await this.#deps.runtime.listContainers();
    const ours = all.filter(({ labels }) => podUidOf(labels) !== undefined);
    for (const container of ours) await this.#take(container);
    return new Set(ours.map(({ id }) => id));
  }

  async #take({ id, state }: ContainerSummary): Promise<void> {
    let run = this.#runs.get(id);
    if (run === undefined) {
      const path = (await this.#deps.runtime.findContainer(id))?.logPath ?? "";
      if (path === "") return;
      run = { id, path, stop: undefined, seen: { bytes: 0, atMs: 0 } };
      this.#runs.set(id, run);
    }
    const isRunning = state === "RUNNING";
    if (isRunning && run.stop === undefined) {
      run.stop = new AbortController();
      void this.#keep(run, AbortSignal.any([this.#signal, run.stop.signal]));
    } else if (!isRunning) {
      run.stop?.abort();
      run.stop = undefined;
    }
  }

  async #forget(directory: string): Promise<void> {
    const { files } = this.#deps;
    const present = await files.list(directory);
    // A run that began meanwhile may have its file already.
    await this.#takeAll();
    const known = [...this.#runs.values()]
      .filter(({ path }) => dirname(path) === directory)
      .map(({ path }) => basename(path));
    for (const name of forgottenLogs(present, known)) {
      await files.remove(join(directory, name));
    }
  }

  /** Keeps one log short while its container runs. */
  async #keep(run: Run, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#keepOnce(run, signal).catch((error: unknown) => this.#pause(run, signal, error));
    }
  }

  async #keepOnce(run: Run, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const { bytesMax } = this.#bounds;
    const size = await sizeOfFile(run.path);
    const bytes = size ?? 0;
    const isFull = bytes > bytesMax;
    const grown = { bytes: bytes - run.seen.bytes, tookMs: clock.monotonicMs() - run.seen.atMs };
    if (isFull) await this.#rotate(run);
    else if (grown.bytes === 0) await changeOf(run.path, size, signal);
    run.seen.bytes = isFull ? 0 : bytes;
    run.seen.atMs = clock.monotonicMs();
    await clock.sleep(nextLookMs({ ...grown, leftBytes: bytesMax - run.seen.bytes }), signal);
  }

  async #pause({ path }: Run, signal: AbortSignal, error: unknown): Promise<void> {
    if (signal.aborted) return;
    const { clock, log } = this.#deps;
    log.warn("log of a container cannot be rotated", { path, err: error });
    await clock.sleep(PAUSE_MS, signal).catch(() => undefined); // aborted: nothing is kept any more
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
      // The runtime goes on with the file that was moved, unless it has made a new one.
      if ((await sizeOfFile(path)) === undefined) await renameFile(moved, path);
      throw error;
    }
    for (const name of plan.remove) await files.remove(join(directory, name));
  }
}

/** Keeps logs short until the signal is aborted. */
export function keepLogs(deps: LogKeeping, signal: AbortSignal): void {
  const keeper = new LogKeeper(deps, signal);
  deps.runtime.watch(keeper.look, signal);
  keeper.look();
}
