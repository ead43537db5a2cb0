// SPDX-License-Identifier: Apache-2.0
// Reads a container's log, and follows it across rotations while the container runs.
import { openGrowingFile, watchFile, type GrowingFile } from "@patchbay/os";
import type { Clock } from "@patchbay/base";
import { LineCounter, LogPrinter, type LogView } from "./log-format.ts";

export interface LogQuery extends Omit<LogView, "skipLines"> {
  readonly tailLines?: number;
  readonly follow: boolean;
}

export interface ContainerLog {
  /** Absolute path of the current file. After a rotation, the runtime creates a new file at this path. */
  readonly path: string;
  isRunning(): Promise<boolean>;
  /** Calls `listener` when the result of `isRunning` may have changed, until the signal is aborted. */
  onChange(listener: () => void, signal: AbortSignal): void;
}

const CHUNK_BYTES = 64 * 1024;
/** Time during which the runtime may still write to the old file after a rotation. */
const REOPEN_DELAY_MS = 100;

/** Wakes a waiting loop. If the loop is not waiting, its next wait ends at once. */
class Wakeup {
  #isDue = false;
  #wake: () => void = () => undefined;

  readonly wake = (): void => {
    this.#isDue = true;
    this.#wake();
  };

  async next(signal: AbortSignal): Promise<void> {
    if (!this.#isDue && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      this.#wake = () => {
        resolve(undefined);
      };
      signal.addEventListener("abort", this.#wake, { once: true });
      await promise;
      signal.removeEventListener("abort", this.#wake);
    }
    this.#isDue = false;
  }
}

async function countSkippedLines(
  file: GrowingFile,
  tailLines: number | undefined,
): Promise<number> {
  if (tailLines === undefined) return 0;
  const counter = new LineCounter();
  let position = 0;
  for (;;) {
    const chunk = await file.read(position, CHUNK_BYTES);
    if (chunk.length === 0) return Math.max(0, counter.count - tailLines);
    position += chunk.length;
    counter.push(chunk);
  }
}

interface LogFile {
  file: GrowingFile;
  position: number;
}

async function* readRest(logFile: LogFile, printer: LogPrinter): AsyncGenerator<Buffer> {
  while (!printer.isFull) {
    const chunk = await logFile.file.read(logFile.position, CHUNK_BYTES);
    if (chunk.length === 0) return;
    logFile.position += chunk.length;
    const output = printer.push(chunk);
    if (output.length > 0) yield output;
  }
}

async function* readReplacement(
  logFile: LogFile,
  printer: LogPrinter,
  log: { readonly path: string; readonly clock: Clock; readonly signal: AbortSignal },
): AsyncGenerator<Buffer, boolean> {
  if (!(await logFile.file.isReplacedAt(log.path))) return false;
  await log.clock.sleep(REOPEN_DELAY_MS, log.signal);
  yield* readRest(logFile, printer);
  const newFile = await openGrowingFile(log.path);
  if (newFile === undefined) return false;
  await logFile.file.close();
  logFile.file = newFile;
  logFile.position = 0;
  printer.nextFile();
  return true;
}

async function* followLog(
  logFile: LogFile,
  printer: LogPrinter,
  { log, clock, signal }: ReadContext,
): AsyncGenerator<Buffer> {
  const wakeup = new Wakeup();
  let isRunning = true;
  let isStateStale = true;
  const markStale = (): void => {
    isStateStale = true;
    wakeup.wake();
  };
  watchFile(log.path, wakeup.wake, signal);
  log.onChange(markStale, signal);
  while (!signal.aborted) {
    // The state is checked before the read, so that the last output of an exiting container is not missed.
    if (isStateStale) {
      isStateStale = false;
      isRunning = await log.isRunning();
    }
    yield* readRest(logFile, printer);
    if (printer.isFull) return;
    if (yield* readReplacement(logFile, printer, { path: log.path, clock, signal })) continue;
    if (!isRunning) return;
    await wakeup.next(signal);
  }
}

interface ReadContext {
  readonly log: ContainerLog;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

async function* readFrom(
  logFile: LogFile,
  query: LogQuery,
  context: ReadContext,
): AsyncGenerator<Buffer> {
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  try {
    const skipLines = await countSkippedLines(logFile.file, query.tailLines);
    const printer = new LogPrinter({ ...query, skipLines });
    if (query.follow) yield* followLog(logFile, printer, { ...context, signal });
    else yield* readRest(logFile, printer);
  } finally {
    stop.abort();
    await logFile.file.close();
  }
}

/** Opens a log. Returns undefined if there is no log or the signal is aborted. @throws AppError with OS_FILE_FAILED */
export async function openLogReader(
  query: LogQuery,
  context: ReadContext,
): Promise<AsyncGenerator<Buffer> | undefined> {
  const file = await openGrowingFile(context.log.path);
  if (file === undefined) return undefined;
  if (context.signal.aborted) {
    await file.close(); // Closes the file here, because the generator that would close it is never started.
    return undefined;
  }
  return readFrom({ file, position: 0 }, query, context);
}
