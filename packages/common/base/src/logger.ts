// SPDX-License-Identifier: Apache-2.0

/** Fields of a log line. All programs use the same names, with a unit, like `retryMs`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writer of structured log lines. Messages must be constant lower-case texts; data goes into fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  /** Logs a change that was made, or the start or stop of the process. */
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** Logs a problem that a person must solve. */
  error(message: string, fields?: LogFields): void;
  child(fields: LogFields): Logger;
}
