// SPDX-License-Identifier: Apache-2.0
// Contract of Logger, which the fake and the real logger must fulfill.
import { describe, expect, test } from "vitest";
import type { LogLine } from "../fakes/logger.ts";
import type { Logger } from "@patchbay/base";

/** A logger that writes all levels, and its lines. */
export interface LoggerBench {
  readonly logger: Logger;
  /** Returns the lines without the fields that every line of a program has. */
  readonly lines: () => readonly LogLine[];
}

/** Defines the tests `Logger: NAME`, each of which calls `make`. */
export function describeLoggerContract(name: string, make: () => LoggerBench): void {
  describe(`Logger: ${name}`, () => {
    test("writes a line of each level, in order, with its fields", () => {
      const { logger, lines } = make();
      logger.debug("looked", { iface: "blue" });
      logger.info("attached");
      logger.warn("slow", { durationMs: 7, plan: ["wireTap"] });
      logger.error("failed", { code: "X" });
      expect(lines()).toEqual([
        { level: "debug", message: "looked", fields: { iface: "blue" } },
        { level: "info", message: "attached", fields: {} },
        { level: "warn", message: "slow", fields: { durationMs: 7, plan: ["wireTap"] } },
        { level: "error", message: "failed", fields: { code: "X" } },
      ]);
    });

    test("adds the fields of a child to its lines; a line's own fields take precedence", () => {
      const { logger, lines } = make();
      const child = logger.child({ vmi: "a/b" }).child({ iface: "x" });
      child.info("plug");
      child.info("plug", { iface: "y" });
      logger.info("done");
      expect(lines().map(({ fields }) => fields)).toEqual([
        { vmi: "a/b", iface: "x" },
        { vmi: "a/b", iface: "y" },
        {},
      ]);
    });
  });
}
