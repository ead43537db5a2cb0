// SPDX-License-Identifier: Apache-2.0
// What every Logger must do; run on the fake and on the one that programs have.
import { describe, expect, test } from "vitest";
import type { LogLine } from "../fakes/logger.ts";
import type { Logger } from "@patchbay/base";

/** A logger of all levels, and what it has written. */
export interface LoggerBench {
  readonly logger: Logger;
  /** Without what every line of the program carries. */
  readonly lines: () => readonly LogLine[];
}

/** Tests of the name `Logger: NAME`; each makes a bench of its own. */
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

    test("of a child carries what the child is bound to; the line's own word is the last", () => {
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
