// SPDX-License-Identifier: Apache-2.0
// How do log lines look and where do they go? JSON to standard error, and lines for people on a terminal.
import { stderr } from "node:process";
import type { LogFields, Logger } from "@patchbay/core/ports";
import { config, createLogger as createWinston, format, transports, type Logform } from "winston";
import { redactValue } from "./redact.ts";

/** What a line is for: `error` a person must act, `warn` degraded, `info` a change was made, `debug` the rest. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** All levels, the most talkative first. */
export const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** What each line of a program carries, and from which level on lines are written. */
export interface LoggerOptions {
  /** Name of the program. */
  readonly component: string;
  readonly level: LogLevel;
  /** Name of the node, for programs that run on one. */
  readonly node?: string;
  /** Where lines go; default standard error. */
  readonly stream?: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/** What winston hands to a format, which must keep its symbols. */
function redactInfo(info: Logform.TransformableInfo): Logform.TransformableInfo {
  for (const [name, value] of Object.entries(info)) {
    if (name !== "level") info[name] = redactField(name, value);
  }
  return info;
}

function redactField(name: string, value: unknown): unknown {
  const redacted = redactValue({ [name]: value });
  return (redacted as Record<string, unknown>)[name]; // redactValue keeps the shape of records
}

const HIDDEN: ReadonlySet<string> = new Set(["level", "message", "timestamp", "component", "node"]);

function printField([name, value]: readonly [string, unknown]): string {
  return `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`;
}

function printLine(info: Logform.TransformableInfo): string {
  const fields = Object.entries(info).filter(([name]) => !HIDDEN.has(name));
  const time = String(info["timestamp"]).slice(11, 23);
  const head = `${time} ${info.level.toUpperCase().padEnd(5)} ${String(info["component"])}`;
  return [`${head} ${String(info.message)}`, ...fields.map(printField)].join(" ");
}

function wrap(log: (level: LogLevel, message: string, fields: LogFields) => void): Logger {
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      log(level, message, fields);
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (bound) =>
      wrap((level, message, fields) => {
        log(level, message, { ...bound, ...fields });
      }),
  };
}

/** The logger of a program. A line is lost, not waited for, when nobody reads the stream. */
export function createLogger(options: LoggerOptions): Logger {
  const stream = options.stream ?? stderr;
  stream.on("error", () => undefined); // a log that nobody reads must not end the program
  const shape = stream.isTTY === true ? format.printf(printLine) : format.json();
  const transport = new transports.Stream({ stream, eol: "\n" });
  const winston = createWinston({
    levels: config.npm.levels,
    level: options.level,
    format: format.combine(format.timestamp(), format(redactInfo)(), shape),
    transports: [transport],
  });
  const { component, node } = options;
  const bound = { component, ...(node !== undefined && { node }) };
  return wrap((level, message, fields) => {
    // winston shapes each line, and drops it afterwards.
    if (winston.isLevelEnabled(level)) winston.log({ ...fields, ...bound, level, message });
  });
}

/** A logger that keeps nothing. */
export function createSilentLogger(): Logger {
  return wrap(() => undefined);
}
