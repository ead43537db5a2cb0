// SPDX-License-Identifier: Apache-2.0
// A log that is kept.
import type { LogFields, Logger } from "@patchbay/base";

/** One line of a log. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  /** Also those that the logger was bound to. */
  readonly fields: LogFields;
}

/** A {@link Logger} of all levels that keeps its lines. */
export interface FakeLogger extends Logger {
  /** In order, those of its children too. */
  readonly lines: readonly LogLine[];
}

function createRecorder(lines: LogLine[], bound: LogFields): FakeLogger {
  const at =
    (level: LogLine["level"]) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields: { ...bound, ...fields } });
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => createRecorder(lines, { ...bound, ...fields }),
    lines,
  };
}

/** A log without lines. */
export function createFakeLogger(): FakeLogger {
  return createRecorder([], {});
}
