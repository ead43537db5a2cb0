// SPDX-License-Identifier: Apache-2.0
// What does one line of a container's log file say? Source: Kubernetes design "CRI: container logs".

/** `2026-11-22T09:00:00.123456789Z stdout F text`; a line that is too long comes in parts, all but the last with `P`. */
export interface LogRecord {
  /** RFC 3339, as it is written. */
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  /** Whether the line goes on in the next record of the same stream. */
  readonly isPartial: boolean;
  /** Without the end of the line. */
  readonly text: Buffer;
}

const BLANK = 0x20;

/** The text up to the next blank, and where the rest begins; undefined where there is no blank. */
function wordAt(line: Buffer, from: number): { word: string; next: number } | undefined {
  const end = line.indexOf(BLANK, from);
  if (end === -1) return undefined;
  return { word: line.toString("latin1", from, end), next: end + 1 };
}

/** An empty text may come without the blank before it. */
function lastWordAt(line: Buffer, from: number): { word: string; next: number } {
  return { word: line.toString("latin1", from), next: line.length };
}

function isStream(word: string): word is LogRecord["stream"] {
  return word === "stdout" || word === "stderr";
}

/** Reads a line without its end; undefined for one that no runtime writes. */
export function parseRecord(line: Buffer): LogRecord | undefined {
  const time = wordAt(line, 0);
  const stream = time && wordAt(line, time.next);
  if (time === undefined || stream === undefined || !isStream(stream.word)) return undefined;
  const tags = wordAt(line, stream.next) ?? lastWordAt(line, stream.next);
  const isPartial = tags.word.split(":")[0] === "P";
  return { time: time.word, stream: stream.word, isPartial, text: line.subarray(tags.next) };
}

/** As `kubectl logs --timestamps` shows times: nine digits of a second. */
export function printRecordTime(time: string): string {
  const match = /^(.*:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(time);
  if (match === null) return time;
  const [, seconds = "", fraction = "", zone = ""] = match;
  return `${seconds}.${fraction.padEnd(9, "0")}${zone}`;
}

/** Milliseconds since 1970; NaN for what is no time. */
export function parseRecordTime(time: string): number {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  return Date.parse(time);
}
