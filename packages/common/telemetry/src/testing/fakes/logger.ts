// SPDX-License-Identifier: Apache-2.0
// A logger that records its lines.
import type { LogFields, Logger } from "@patchbay/base";

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  /** Fields of the line, including those of child loggers. */
  readonly fields: LogFields;
}

export interface FakeLogger extends Logger {
  /** All lines in order, including those of child loggers. */
  readonly lines: readonly LogLine[];
}

function createRecorder(lines: LogLine[], boundFields: LogFields): FakeLogger {
  const recordAt =
    (level: LogLine["level"]) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields: { ...boundFields, ...fields } });
    };
  return {
    debug: recordAt("debug"),
    info: recordAt("info"),
    warn: recordAt("warn"),
    error: recordAt("error"),
    child: (fields) => createRecorder(lines, { ...boundFields, ...fields }),
    lines,
  };
}

export function createFakeLogger(): FakeLogger {
  return createRecorder([], {});
}
