// SPDX-License-Identifier: Apache-2.0
// From bytes of a log file to the bytes that whoever reads the log is shown.
import { parseRecord, parseRecordTime, printRecordTime, type LogRecord } from "./record.ts";

/** Which part of a log is shown, and how. */
export interface LogView {
  /** Nothing older, milliseconds since 1970. */
  readonly sinceMs?: number;
  /** Lines that are passed over at the beginning. */
  readonly skipLines: number;
  /** Whether each line begins with its time. */
  readonly timestamps: boolean;
  /** Most bytes that are shown. */
  readonly limitBytes?: number;
}

const NEWLINE = 0x0a;
const NOTHING: Buffer = Buffer.alloc(0);
/** Longer lines are no runtime's: 16 KiB of text are. What has no end is passed over. */
const LINE_MAX_BYTES = 1024 * 1024;

/** Splits chunks into lines; what has no end yet waits for it. */
export class LineSplitter {
  #rest: Buffer = NOTHING;

  *split(chunk: Buffer): Generator<Buffer> {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, from)) {
      yield bytes.subarray(from, end);
      from = end + 1;
    }
    const rest = bytes.subarray(from);
    this.#rest = rest.length > LINE_MAX_BYTES ? NOTHING : Buffer.from(rest);
  }

  /** Begins anew: another file follows. */
  reset(): void {
    this.#rest = NOTHING;
  }
}

/** Prints one log from its beginning on, chunk by chunk. */
export class LogPrinter {
  readonly #view: LogView;
  readonly #lines = new LineSplitter();
  /** Streams whose line is not at its end. */
  readonly #unfinished = new Set<LogRecord["stream"]>();
  #left: number;
  #skip: number;

  constructor(view: LogView) {
    this.#view = view;
    this.#left = view.limitBytes ?? Infinity;
    this.#skip = view.skipLines;
  }

  /** Whether as much was shown as was asked for. */
  get isFull(): boolean {
    return this.#left <= 0;
  }

  /** What is to be shown of these bytes. */
  push(chunk: Buffer): Buffer {
    const shown: Buffer[] = [];
    for (const line of this.#lines.split(chunk)) {
      if (this.isFull) break;
      const record = parseRecord(line);
      if (record !== undefined) shown.push(...this.#show(record));
    }
    return Buffer.concat(shown);
  }

  /** What follows is of another file, from its beginning. */
  nextFile(): void {
    this.#lines.reset();
  }

  #show(record: LogRecord): readonly Buffer[] {
    const isStart = !this.#unfinished.has(record.stream);
    if (record.isPartial) this.#unfinished.add(record.stream);
    else this.#unfinished.delete(record.stream);
    if (this.#skip > 0) {
      if (!record.isPartial) this.#skip -= 1;
      return [];
    }
    if (this.#isTooOld(record)) return [];
    const before = isStart && this.#view.timestamps ? `${printRecordTime(record.time)} ` : "";
    const after = record.isPartial ? "" : "\n";
    return this.#cut([Buffer.from(before), record.text, Buffer.from(after)]);
  }

  #isTooOld({ time }: LogRecord): boolean {
    const { sinceMs } = this.#view;
    return sinceMs !== undefined && parseRecordTime(time) < sinceMs;
  }

  #cut(parts: readonly Buffer[]): readonly Buffer[] {
    return parts.map((part) => {
      const cut = part.length > this.#left ? part.subarray(0, this.#left) : part;
      this.#left -= cut.length;
      return cut;
    });
  }
}

/** Counts the lines of a log, for those that want the last ones only; a last line that is not finished counts too. */
export class LineCounter {
  readonly #lines = new LineSplitter();
  #finished = 0;
  #isUnfinished = false;

  push(chunk: Buffer): void {
    for (const line of this.#lines.split(chunk)) {
      const record = parseRecord(line);
      if (record === undefined) continue;
      this.#isUnfinished = record.isPartial;
      if (!record.isPartial) this.#finished += 1;
    }
  }

  get count(): number {
    return this.#finished + (this.#isUnfinished ? 1 : 0);
  }
}
