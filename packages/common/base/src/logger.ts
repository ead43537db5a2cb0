// SPDX-License-Identifier: Apache-2.0

/** Fields of a log line. A field has the same name in all programs, with its unit (`retryMs`). */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes structured lines. The message is constant, lower-case text; variable data goes into fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  /** One line for each change made, and for start and stop of the process. */
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** A person must act. */
  error(message: string, fields?: LogFields): void;
  child(fields: LogFields): Logger;
}
