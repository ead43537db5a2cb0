// SPDX-License-Identifier: Apache-2.0
import { Writable } from "node:stream";
import { AppError, type LogFields, type Logger } from "@patchbay/base";

import { describeLoggerContract } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createLogger, type LogLevel } from "./logger.ts";

interface Captured {
  readonly logger: Logger;
  readonly lines: () => readonly string[];
}

function capture(settings: { level?: LogLevel; isTTY?: boolean; node?: string } = {}): Captured {
  const chunks: string[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(chunk.toString());
      done();
    },
  });
  const { level = "info", isTTY = false, node } = settings;
  const logger = createLogger({
    component: "virt-api",
    level,
    stream: Object.assign(stream, { isTTY }),
    ...(node !== undefined && { node }),
  });
  return {
    logger,
    lines: () =>
      chunks
        .join("")
        .split("\n")
        .filter((line) => line !== ""),
  };
}

function first({ lines }: Captured): Record<string, unknown> {
  return JSON.parse(lines()[0] ?? "{}") as Record<string, unknown>;
}

/** A line without what the program adds. */
function parseLine(line: string): { level: LogLevel; message: string; fields: LogFields } {
  // As the logger writes it.
  const { level, message, ...rest } = JSON.parse(line) as { level: LogLevel; message: string };
  const own = Object.entries(rest).filter(([name]) => !["timestamp", "component"].includes(name));
  return { level, message, fields: Object.fromEntries(own) };
}

describeLoggerContract("JSON lines", () => {
  const { logger, lines } = capture({ level: "debug" });
  return { logger, lines: () => lines().map(parseLine) };
});

describe("a log line", () => {
  test("below the level does not evaluate its fields", () => {
    const looks: string[] = [];
    const field = {
      get costly(): string {
        looks.push("looked");
        return "value";
      },
    };
    const { logger } = capture({ level: "info" });
    logger.debug("saw", { field });
    expect(looks).toEqual([]);
    logger.info("saw", { field });
    expect(looks).toContain("looked");
  });

  test("is one JSON object with component, node, level, time and fields", () => {
    const captured = capture({ node: "one" });
    captured.logger.info("attached device", { iface: "blue", durationMs: 12 });
    expect(first(captured)).toEqual({
      level: "info",
      message: "attached device",
      component: "virt-api",
      node: "one",
      iface: "blue",
      durationMs: 12,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
    });
  });

  test("below the level is not written", () => {
    const captured = capture({ level: "warn" });
    captured.logger.debug("one");
    captured.logger.info("two");
    captured.logger.warn("three");
    captured.logger.error("four");
    expect(captured.lines()).toHaveLength(2);
  });

  test("shows an error with its code and causes", () => {
    const captured = capture();
    const cause = new AppError("OS_PROGRAM_MISSING", { program: "ip" });
    captured.logger.error("failed", { err: new Error("outer", { cause }) });
    expect(first(captured)["err"]).toMatchObject({
      message: "outer",
      cause: { code: "OS_PROGRAM_MISSING", message: "ip is not installed" },
    });
  });

  test("on a terminal is readable text", () => {
    const captured = capture({ isTTY: true });
    captured.logger.warn("slow call", { durationMs: 7, iface: "blue" });
    expect(captured.lines()[0]).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} WARN {2}virt-api slow call durationMs=7 iface=blue$/,
    );
  });
});

describe("the log redacts a secret", () => {
  const key = "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----";
  test.each([
    { name: "in a member with a secret's name", fields: { token: "s3cr3t" } },
    {
      name: "in a nested member with a secret's name",
      fields: { a: [{ Authorization: "s3cr3t" }] },
    },
    { name: "as a bearer token in text", fields: { reason: "sent Bearer s3cr3t to it" } },
    { name: "as a JSON Web Token", fields: { reason: "eyJhbGciOiJSUzI.s3cr3t.abc" } },
    { name: "as a private key", fields: { reason: key.replace("MIIabc", "s3cr3t") } },
    { name: "in an error's message", fields: { err: new Error("Bearer s3cr3t refused") } },
    { name: "in an error's cause", fields: { err: new Error("x", { cause: "Bearer s3cr3t" }) } },
  ])("$name", ({ fields }) => {
    const captured = capture();
    captured.logger.info("test", fields);
    expect(captured.lines()[0]).toContain("[redacted]");
    expect(captured.lines()[0]).not.toContain("s3cr3t");
  });

  test("as part of the message", () => {
    const captured = capture();
    captured.logger.info("got Bearer s3cr3t");
    expect(captured.lines()[0]).not.toContain("s3cr3t");
  });
});
