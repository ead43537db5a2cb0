// SPDX-License-Identifier: Apache-2.0
// Reads a container's log, and follows it across rotations while the container runs.
import { openGrowingFile, watchFile, type GrowingFile } from "@patchbay/os";
import type { Clock } from "@patchbay/base";
import { LogPrinter, parseRecord, type LogView } from "./log-format.ts";

export interface LogQuery extends LogView {
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

interface LogFile {
  file: GrowingFile;
  position: number;
  readonly beginRead: BeginRead;
}

const NEWLINE = 0x0a;
/** Maximum size of time, stream and tags of a record, in bytes. */
const RECORD_HEAD_BYTES = 128;

/** Counts lines from the last record to the first. An unfinished last line counts. */
class TailCounter {
  readonly #tailLines: number;
  #lines = 0;
  #isLastRecord = true;

  constructor(tailLines: number) {
    this.#tailLines = tailLines;
  }

  isAboveTail(recordHead: Buffer): boolean {
    const record = parseRecord(recordHead);
    if (record === undefined || (record.isPartial && !this.#isLastRecord)) return false;
    this.#isLastRecord = false;
    if (this.#lines >= this.#tailLines) return true;
    this.#lines += 1;
    return false;
  }
}

/** Finds the position of the last lines by reading from the end of the file. */
async function findTail({ file, beginRead }: LogFile, tailLines: number): Promise<number> {
  const counter = new TailCounter(tailLines);
  let lineEnd = -1;
  for (let chunkEnd = await file.readSize(); chunkEnd > 0;) {
    const chunkStart = Math.max(0, chunkEnd - CHUNK_BYTES);
    const endRead = await beginRead();
    try {
      const chunk = await file.read(chunkStart, chunkEnd - chunkStart);
      const readHead = (start: number): Buffer | Promise<Buffer> => {
        const headEnd = Math.min(start + RECORD_HEAD_BYTES, lineEnd);
        return headEnd <= chunkStart + chunk.length
          ? chunk.subarray(start - chunkStart, headEnd - chunkStart)
          : file.read(start, headEnd - start);
      };
      for (let at = chunk.length; at > 0;) {
        at = chunk.lastIndexOf(NEWLINE, at - 1);
        const lineStart = chunkStart + at + 1;
        if (at === -1 && chunkStart > 0) break;
        if (lineEnd !== -1 && counter.isAboveTail(await readHead(lineStart))) return lineEnd + 1;
        lineEnd = lineStart - 1;
      }
    } finally {
      endRead();
    }
    chunkEnd = chunkStart;
  }
  return 0;
}

async function readChunk(logFile: LogFile, printer: LogPrinter): Promise<Buffer | undefined> {
  const endRead = await logFile.beginRead();
  try {
    const chunk = await logFile.file.read(logFile.position, CHUNK_BYTES);
    logFile.position += chunk.length;
    return chunk.length === 0 ? undefined : printer.push(chunk);
  } finally {
    endRead();
  }
}

async function* readRest(logFile: LogFile, printer: LogPrinter): AsyncGenerator<Buffer> {
  while (!printer.isFull) {
    const output = await readChunk(logFile, printer);
    if (output === undefined) return;
    if (output.length > 0) yield output;
  }
}

async function* readReplacement(
  logFile: LogFile,
  printer: LogPrinter,
  { log, clock, signal }: ReadContext,
): AsyncGenerator<Buffer, boolean> {
  if (!(await logFile.file.isReplacedAt(log.path))) return false;
  await clock.sleep(REOPEN_DELAY_MS, signal);
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
  context: ReadContext,
): AsyncGenerator<Buffer> {
  const { log, signal } = context;
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
    if (yield* readReplacement(logFile, printer, context)) continue;
    if (!isRunning) return;
    await wakeup.next(signal);
  }
}

/** Resolves when the next part of a log may be read. The reader must call the returned function afterwards. */
export type BeginRead = () => Promise<() => void>;

interface ReadContext {
  readonly log: ContainerLog;
  readonly beginRead: BeginRead;
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
    if (query.tailLines !== undefined) {
      logFile.position = await findTail(logFile, query.tailLines);
    }
    const printer = new LogPrinter(query);
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
  const { beginRead } = context;
  return readFrom({ file, position: 0, beginRead }, query, context);
}
