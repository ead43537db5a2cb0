// SPDX-License-Identifier: Apache-2.0
// Parses a container's log and formats it for `kubectl logs`. Source: Kubernetes design "CRI: container logs".

/** Log record such as `2026-11-22T09:00:00.123456789Z stdout F text`. `P` instead of `F` marks a partial line. */
interface LogRecord {
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  /** Whether the line continues in the next record of the same stream. */
  readonly isPartial: boolean;
  readonly text: Buffer;
}

const BLANK = 0x20;

function readField(line: Buffer, offset: number): { value: string; next: number } | undefined {
  const end = line.indexOf(BLANK, offset);
  if (end === -1) return undefined;
  return { value: line.toString("latin1", offset, end), next: end + 1 };
}

/** Reads the rest of the line as a field, because a record without text may end directly after its tags. */
function readLastField(line: Buffer, offset: number): { value: string; next: number } {
  return { value: line.toString("latin1", offset), next: line.length };
}

function isStream(value: string): value is LogRecord["stream"] {
  return value === "stdout" || value === "stderr";
}

export function parseRecord(line: Buffer): LogRecord | undefined {
  const time = readField(line, 0);
  const stream = time && readField(line, time.next);
  if (time === undefined || stream === undefined || !isStream(stream.value)) return undefined;
  const tags = readField(line, stream.next) ?? readLastField(line, stream.next);
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

/** Parses a time. Returns milliseconds since 1970, or NaN for invalid text. */
export function parseRecordTime(time: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(time);
}

export interface LogView {
  /** Time in milliseconds since 1970. Older records are omitted. */
  readonly sinceMs?: number;
  readonly timestamps: boolean;
  readonly limitBytes?: number;
}

const NEWLINE = 0x0a;
/** Length above which an unfinished record is dropped. Records are normally shorter, because runtimes split lines after 16 KiB. */
const LINE_MAX_BYTES = 1024 * 1024;

class LineSplitter {
  #unfinishedLine: Buffer[] = [];
  #length = 0;

  *split(chunk: Buffer): Generator<Buffer> {
    let lineStart = 0;
    for (
      let lineEnd = chunk.indexOf(NEWLINE);
      lineEnd !== -1;
      lineEnd = chunk.indexOf(NEWLINE, lineStart)
    ) {
      yield this.#endLine(chunk.subarray(lineStart, lineEnd));
      lineStart = lineEnd + 1;
    }
    if (lineStart < chunk.length) this.#unfinishedLine.push(Buffer.from(chunk.subarray(lineStart)));
    this.#length += chunk.length - lineStart;
    if (this.#length > LINE_MAX_BYTES) this.reset();
  }

  #endLine(end: Buffer): Buffer {
    const line =
      this.#unfinishedLine.length === 0 ? end : Buffer.concat([...this.#unfinishedLine, end]);
    this.reset();
    return line;
  }

  reset(): void {
    this.#unfinishedLine = [];
    this.#length = 0;
  }
}

export class LogPrinter {
  readonly #view: LogView;
  readonly #lines = new LineSplitter();
  readonly #unfinished = new Set<LogRecord["stream"]>();
  #remainingBytes: number;

  constructor(view: LogView) {
    this.#view = view;
    this.#remainingBytes = view.limitBytes ?? Infinity;
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
    if (this.#isTooOld(record)) return [];
    const prefix = isStart && this.#view.timestamps ? `${printRecordTime(record.time)} ` : "";
    const suffix = record.isPartial ? "" : "\n";
    return this.#truncate([Buffer.from(prefix), record.text, Buffer.from(suffix)]);
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
