// SPDX-License-Identifier: Apache-2.0

/** Fields of a log line. Callers must use the same names in all programs, and end a name with its unit, for example `retryMs`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writer of structured log lines. Callers must pass a constant message in lower case, and variable data only in fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  /** Logs a change that was made, or the start or stop of the process. */
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  child(fields: LogFields): Logger;
}
