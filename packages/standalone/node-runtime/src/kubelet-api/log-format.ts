// SPDX-License-Identifier: Apache-2.0
// A container's log file, and its output for `kubectl logs`. Source: Kubernetes design "CRI: container logs".

/** A record `2026-11-22T09:00:00.123456789Z stdout F text`. All records of a long line but the last have `P`, not `F`. */
interface LogRecord {
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  /** Whether the line continues in the next record of the same stream. */
  readonly isPartial: boolean;
  readonly text: Buffer;
}

const BLANK = 0x20;

function fieldAt(line: Buffer, from: number): { value: string; next: number } | undefined {
  const end = line.indexOf(BLANK, from);
  if (end === -1) return undefined;
  return { value: line.toString("latin1", from, end), next: end + 1 };
}

/** Reads the rest of the line as a field, because the blank before an empty text may be missing. */
function lastFieldAt(line: Buffer, from: number): { value: string; next: number } {
  return { value: line.toString("latin1", from), next: line.length };
}

function isStream(value: string): value is LogRecord["stream"] {
  return value === "stdout" || value === "stderr";
}

export function parseRecord(line: Buffer): LogRecord | undefined {
  const time = fieldAt(line, 0);
  const stream = time && fieldAt(line, time.next);
  if (time === undefined || stream === undefined || !isStream(stream.value)) return undefined;
  const tags = fieldAt(line, stream.next) ?? lastFieldAt(line, stream.next);
  const isPartial = tags.value.split(":")[0] === "P";
  return { time: time.value, stream: stream.value, isPartial, text: line.subarray(tags.next) };
}

/** Pads the time to nanoseconds, like `kubectl logs --timestamps`. */
export function printRecordTime(time: string): string {
  const match = /^(.*:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(time);
  if (match === null) return time;
  const [, seconds = "", fraction = "", zone = ""] = match;
  return `${seconds}.${fraction.padEnd(9, "0")}${zone}`;
}

/** Returns milliseconds since 1970; NaN if the text is not a time. */
export function parseRecordTime(time: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(time);
}

export interface LogView {
  /** Time before which records are skipped, in milliseconds since 1970. */
  readonly sinceMs?: number;
  readonly skipLines: number;
  readonly timestamps: boolean;
  readonly limitBytes?: number;
}

const NEWLINE = 0x0a;
const EMPTY: Buffer = Buffer.alloc(0);
/** Length above which a line is dropped. Runtimes split lines at 16 KiB of text. */
const LINE_MAX_BYTES = 1024 * 1024;

class LineSplitter {
  #rest: Buffer = EMPTY;

  *split(chunk: Buffer): Generator<Buffer> {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, from)) {
      yield bytes.subarray(from, end);
      from = end + 1;
    }
    const rest = bytes.subarray(from);
    this.#rest = rest.length > LINE_MAX_BYTES ? EMPTY : Buffer.from(rest);
  }

  reset(): void {
    this.#rest = EMPTY;
  }
}

export class LogPrinter {
  readonly #view: LogView;
  readonly #lines = new LineSplitter();
  readonly #unfinished = new Set<LogRecord["stream"]>();
  #remainingBytes: number;
  #linesToSkip: number;

  constructor(view: LogView) {
    this.#view = view;
    this.#remainingBytes = view.limitBytes ?? Infinity;
    this.#linesToSkip = view.skipLines;
  }

  get isFull(): boolean {
    return this.#remainingBytes <= 0;
  }

  push(chunk: Buffer): Buffer {
    const outputs: Buffer[] = [];
    for (const line of this.#lines.split(chunk)) {
      if (this.isFull) break;
      const record = parseRecord(line);
      if (record !== undefined) outputs.push(...this.#printRecord(record));
    }
    return Buffer.concat(outputs);
  }

  nextFile(): void {
    this.#lines.reset();
  }

  #printRecord(record: LogRecord): readonly Buffer[] {
    const isStart = !this.#unfinished.has(record.stream);
    if (record.isPartial) this.#unfinished.add(record.stream);
    else this.#unfinished.delete(record.stream);
    if (this.#linesToSkip > 0) {
      if (!record.isPartial) this.#linesToSkip -= 1;
      return [];
    }
    if (this.#isTooOld(record)) return [];
    const before = isStart && this.#view.timestamps ? `${printRecordTime(record.time)} ` : "";
    const after = record.isPartial ? "" : "\n";
    return this.#truncate([Buffer.from(before), record.text, Buffer.from(after)]);
  }

  #isTooOld({ time }: LogRecord): boolean {
    const { sinceMs } = this.#view;
    return sinceMs !== undefined && parseRecordTime(time) < sinceMs;
  }

  #truncate(parts: readonly Buffer[]): readonly Buffer[] {
    return parts.map((part) => {
      const cut =
        part.length > this.#remainingBytes ? part.subarray(0, this.#remainingBytes) : part;
      this.#remainingBytes -= cut.length;
      return cut;
    });
  }
}

/** Counts lines, including an unfinished last line. */
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
