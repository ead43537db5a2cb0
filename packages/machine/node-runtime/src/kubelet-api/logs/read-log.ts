// SPDX-License-Identifier: Apache-2.0
// Reads a container's log, and goes on reading while it grows and is rotated, as long as the container runs.
import { openGrowingFile, watchFile, type GrowingFile } from "@patchbay/os";
import type { Clock } from "@patchbay/core/ports";
import { LineCounter, LogPrinter, type LogView } from "./printer.ts";

/** What somebody wants to see of a log. */
export interface LogQuery extends Omit<LogView, "skipLines"> {
  /** Only so many lines at the end; absent: all. */
  readonly tailLines?: number;
  readonly follow: boolean;
}

/** The log of one container. */
export interface ContainerLog {
  /** Absolute; the runtime writes a new file there after a rotation. */
  readonly path: string;
  /** Whether more may come. */
  isRunning(): Promise<boolean>;
  /** Calls `changed` when `isRunning` may say something else, until aborted. */
  onChange(changed: () => void, signal: AbortSignal): void;
}

/** Bytes that are read at once. */
const CHUNK_BYTES = 64 * 1024;
/** How long the runtime may go on writing to the old file when there is a new one, milliseconds. */
const REOPEN_MS = 100;

/** Remembers that something changed, for one who waits for it. */
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

/** The lines that are not the last `tailLines`. */
async function countSkipped(file: GrowingFile, tailLines: number | undefined): Promise<number> {
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

/** A file, and how far it was shown. */
interface Place {
  file: GrowingFile;
  position: number;
}

/** Shows what there is up to the present end. */
async function* showRest(place: Place, printer: LogPrinter): AsyncGenerator<Buffer> {
  while (!printer.isFull) {
    const chunk = await place.file.read(place.position, CHUNK_BYTES);
    if (chunk.length === 0) return;
    place.position += chunk.length;
    const shown = printer.push(chunk);
    if (shown.length > 0) yield shown;
  }
}

/** Goes on with the new file where there is one; whether there was. */
async function* showReplaced(
  place: Place,
  printer: LogPrinter,
  log: { readonly path: string; readonly clock: Clock; readonly signal: AbortSignal },
): AsyncGenerator<Buffer, boolean> {
  if (!(await place.file.isReplacedAt(log.path))) return false;
  await log.clock.sleep(REOPEN_MS, log.signal);
  yield* showRest(place, printer);
  const next = await openGrowingFile(log.path);
  if (next === undefined) return false;
  await place.file.close();
  place.file = next;
  place.position = 0;
  printer.nextFile();
  return true;
}

async function* follow(
  place: Place,
  printer: LogPrinter,
  { log, clock, signal }: Reading,
): AsyncGenerator<Buffer> {
  const wakeup = new Wakeup();
  let isRunning = true;
  let isAskDue = true;
  const ask = (): void => {
    isAskDue = true;
    wakeup.wake();
  };
  watchFile(log.path, wakeup.wake, signal);
  log.onChange(ask, signal);
  while (!signal.aborted) {
    // Asked before the rest is read: what was written before the end is read then.
    if (isAskDue) {
      isAskDue = false;
      isRunning = await log.isRunning();
    }
    yield* showRest(place, printer);
    if (printer.isFull) return;
    if (yield* showReplaced(place, printer, { path: log.path, clock, signal })) continue;
    if (!isRunning) return;
    await wakeup.next(signal);
  }
}

/** One reading of a log. */
interface Reading {
  readonly log: ContainerLog;
  readonly clock: Clock;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

async function* readFrom(place: Place, query: LogQuery, reading: Reading): AsyncGenerator<Buffer> {
  const stop = new AbortController();
  const signal = AbortSignal.any([reading.signal, stop.signal]);
  try {
    const skipLines = await countSkipped(place.file, query.tailLines);
    const printer = new LogPrinter({ ...query, skipLines });
    if (query.follow) yield* follow(place, printer, { ...reading, signal });
    else yield* showRest(place, printer);
  } finally {
    stop.abort();
    await place.file.close();
  }
}

/**
 * Opens a log; undefined when there is none, or nobody wants it any more. What is read ends with the log, with what was asked for, or, where it is
 * followed, with the container.
 * @throws AppError with OS_FILE_FAILED
 */
export async function openLog(
  query: LogQuery,
  reading: Reading,
): Promise<AsyncGenerator<Buffer> | undefined> {
  const file = await openGrowingFile(reading.log.path);
  if (file === undefined) return undefined;
  if (reading.signal.aborted) {
    await file.close(); // what is never begun to be read is never closed either
    return undefined;
  }
  return readFrom({ file, position: 0 }, query, reading);
}
