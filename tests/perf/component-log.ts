// SPDX-License-Identifier: Apache-2.0
// A component's log.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "@patchbay/support";

/** The used fields of a log line. */
export interface LogLine {
  readonly timestamp: string;
  readonly message: string;
  readonly vmi?: string;
  readonly action?: string;
  readonly iface?: string;
  readonly durationMs?: number;
}

/** A component's log lines since `sinceMs` (wall time). */
export function logLines(machine: Machine, component: string, sinceMs: number): readonly LogLine[] {
  const text = readFileSync(join(machine.dataDir, "logs", `${component}.log`), "utf8");
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as LogLine) // the logger's own format
    .filter(({ timestamp }) => Date.parse(timestamp) >= sinceMs);
}
