// SPDX-License-Identifier: Apache-2.0
// The logger that everything above the adapters is given.

/** Values of one log line by name: one name for one thing in all programs, with its unit where it has one (`retryMs`). */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes structured lines. The message is constant, lower case text; what varies goes into fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  /** One line for each change made, and for the life of the process. */
  info(message: string, fields?: LogFields): void;
  /** Degraded but going on. */
  warn(message: string, fields?: LogFields): void;
  /** A person must act. */
  error(message: string, fields?: LogFields): void;
  /** A logger whose lines carry `fields` too. */
  child(fields: LogFields): Logger;
}
