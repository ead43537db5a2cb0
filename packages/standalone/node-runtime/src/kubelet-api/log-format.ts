// SPDX-License-Identifier: Apache-2.0
// A container's log file, and its output for `kubectl logs`. Source: Kubernetes design "CRI: container logs".

/** `2026-11-22T09:00:00.123456789Z stdout F text`; a long line is split into records, all but the last with `P`. */
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

/** The blank before an empty text may be missing. */
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

/** Pads to nanoseconds, like `kubectl logs --timestamps`. */
export function printRecordTime(time: string): string {
  const match = /^(.*:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(time);
  if (match === null) return time;
  const [, seconds = "", fraction = "", zone = ""] = match;
  return `${seconds}.${fraction.padEnd(9, "0")}${zone}`;
}

/** Milliseconds since 1970; NaN when the text is no time. */
export function parseRecordTime(time: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(time);
}

export interface LogView {
  /** Milliseconds since 1970. */
  readonly sinceMs?: number;
  readonly skipLines: number;
  readonly timestamps: boolean;
  readonly limitBytes?: number;
}

const NEWLINE = 0x0a;
const EMPTY: Buffer = Buffer.alloc(0);
/** Runtimes split lines at 16 KiB of text, so a longer one is dropped. */
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
  #left: number;
  #skip: number;

  constructor(view: LogView) {
    this.#view = view;
    this.#left = view.limitBytes ?? Infinity;
    this.#skip = view.skipLines;
  }

  get isFull(): boolean {
    return this.#left <= 0;
  }

  push(chunk: Buffer): Buffer {
    const shown: Buffer[] = [];
    for (const line of this.#lines.split(chunk)) {
      if (this.isFull) break;
      const record = parseRecord(line);
      if (record !== undefined) shown.push(...this.#show(record));
    }
    return Buffer.concat(shown);
  }

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

/** An unfinished last line counts. */
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
