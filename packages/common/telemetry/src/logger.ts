// SPDX-License-Identifier: Apache-2.0
// Logger that writes JSON to standard error, or readable lines to a terminal.
import { fstatSync, writeSync } from "node:fs";
import { stderr } from "node:process";
import { Writable } from "node:stream";
import type { LogFields, Logger } from "@patchbay/base";
import { config, createLogger as createWinston, format, type Logform, transports } from "winston";

const REDACTED = "[redacted]";
/** Pattern of the names of fields with secret values. */
const SECRET_NAME =
  /^(authorization|cookie|password|secret|token|bearertoken|clientkeydata|client-key-data|tls\.key|privatekey|key-?data|userdata|cloudinit.*)$/i;
/** Patterns of secrets in strings: bearer tokens, JWTs, and private keys in PEM. */
const SECRET_TEXTS: readonly RegExp[] = [
  /\bBearer\s+[\w.~+/=-]+/gi,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g,
];
/** Maximum nesting depth. Deeper objects and lists are omitted. */
const DEPTH_MAX = 6;

function redactText(text: string): string {
  return SECRET_TEXTS.reduce((result, pattern) => result.replace(pattern, REDACTED), text);
}

function redactError(error: Error, depth: number): unknown {
  const code: unknown = "code" in error ? error.code : undefined;
  return {
    name: error.name,
    message: redactText(error.message),
    ...(code !== undefined && { code }),
    ...(error.stack !== undefined && { stack: redactText(error.stack) }),
    ...(error.cause !== undefined && { cause: redactValue(error.cause, depth + 1) }),
  };
}

function redactRecord(record: object, depth: number): unknown {
  const entries = Object.entries(record).map(([name, value]): [string, unknown] => [
    name,
    SECRET_NAME.test(name) ? REDACTED : redactValue(value, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

function redactValue(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEPTH_MAX) return "[deep]";
  if (value instanceof Error) return redactError(value, depth);
  if (Array.isArray(value)) return value.map((item) => redactValue(item, depth + 1));
  return redactRecord(value, depth);
}

/** `error` requires action by a person, `warn` reports degraded service, `info` reports a change, and `debug` reports everything else. */
export type LogLevel = "debug" | "info" | "warn" | "error";

export const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

interface LoggerOptions {
  readonly component: string;
  readonly level: LogLevel;
  readonly node?: string;
  /** Stream to write to. Defaults to standard error. */
  readonly stream?: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/** Redacts a line in place, so that the object keeps the properties with symbol keys, which winston reads. */
function redactInfo(info: Logform.TransformableInfo): Logform.TransformableInfo {
  for (const [name, value] of Object.entries(info)) {
    if (name !== "level") info[name] = redactField(name, value);
  }
  return info;
}

function redactField(name: string, value: unknown): unknown {
  const redacted = redactValue({ [name]: value });
  return (redacted as Record<string, unknown>)[name]; // The cast is safe, because redactValue converts an object to an object.
}

const HEAD_FIELDS: ReadonlySet<string> = new Set([
  "level",
  "message",
  "timestamp",
  "component",
  "node",
]);

function printField([name, value]: readonly [string, unknown]): string {
  return `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`;
}

function printLine(info: Logform.TransformableInfo): string {
  const fields = Object.entries(info).filter(([name]) => !HEAD_FIELDS.has(name));
  const time = String(info["timestamp"]).slice(11, 23);
  const head = `${time} ${info.level.toUpperCase().padEnd(5)} ${String(info["component"])}`;
  return [`${head} ${String(info.message)}`, ...fields.map(printField)].join(" ");
}

function createLevelMethods(
  log: (level: LogLevel, message: string, fields: LogFields) => void,
): Logger {
  const logAt =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      log(level, message, fields);
    };
  return {
    debug: logAt("debug"),
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
    child: (childFields) =>
      createLevelMethods((level, message, fields) => {
        log(level, message, { ...childFields, ...fields });
      }),
  };
}

/** Writes lines to a file. Node.js' own stream would write nothing more after a failed write, for example on a full disk. */
class FileStream extends Writable {
  readonly #fd: number;

  constructor(fd: number) {
    super({ decodeStrings: false });
    this.#fd = fd;
  }

  override _write(line: string | Buffer, _encoding: BufferEncoding, done: () => void): void {
    try {
      writeSync(this.#fd, line.toString());
    } catch {
      // The line is lost, because there is no other place to report the failure.
    }
    done();
  }
}

function openStderr(): NonNullable<LoggerOptions["stream"]> {
  return fstatSync(stderr.fd).isFile() ? new FileStream(stderr.fd) : stderr;
}

/** Creates a logger. If the stream fails, the logger drops lines and does not throw. */
export function createLogger(options: LoggerOptions): Logger {
  const stream = options.stream ?? openStderr();
  stream.on("error", () => undefined); // A failed stream must not end the program.
  const shape = stream.isTTY === true ? format.printf(printLine) : format.json();
  const transport = new transports.Stream({ stream, eol: "\n" });
  const winston = createWinston({
    levels: config.npm.levels,
    level: options.level,
    format: format.combine(format.timestamp(), format(redactInfo)(), shape),
    transports: [transport],
  });
  const { component, node } = options;
  const programFields = { component, ...(node !== undefined && { node }) };
  return createLevelMethods((level, message, fields) => {
    // The check avoids formatting lines that winston would drop.
    if (winston.isLevelEnabled(level)) winston.log({ ...fields, ...programFields, level, message });
  });
}

export function createSilentLogger(): Logger {
  return createLevelMethods(() => undefined);
}
