// SPDX-License-Identifier: Apache-2.0
// Formats ages like kubectl. Source: Kubernetes util/duration.HumanDuration.
import type { Column } from "../kinds/kind.ts";
import { parseTime } from "../objects/time.ts";

const SECOND = 1;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

interface AgeFormat {
  readonly unit: number;
  readonly letter: string;
  /** Smaller unit that is also printed, unless its number is 0. */
  readonly smallerUnit?: readonly [number, string];
}

interface AgeStep extends AgeFormat {
  /** Upper bound of the age in seconds, exclusive. */
  readonly limitSeconds: number;
}

const STEPS: readonly AgeStep[] = [
  { limitSeconds: 2 * MINUTE, unit: SECOND, letter: "s" },
  { limitSeconds: 10 * MINUTE, unit: MINUTE, letter: "m", smallerUnit: [SECOND, "s"] },
  { limitSeconds: 3 * HOUR, unit: MINUTE, letter: "m" },
  { limitSeconds: 8 * HOUR, unit: HOUR, letter: "h", smallerUnit: [MINUTE, "m"] },
  { limitSeconds: 2 * DAY, unit: HOUR, letter: "h" },
  { limitSeconds: 8 * DAY, unit: DAY, letter: "d", smallerUnit: [HOUR, "h"] },
  { limitSeconds: 2 * YEAR, unit: DAY, letter: "d" },
  { limitSeconds: 8 * YEAR, unit: YEAR, letter: "y", smallerUnit: [DAY, "d"] },
];
const YEARS_FORMAT: AgeFormat = { unit: YEAR, letter: "y" };

function humanDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 0) {
    return "0s";
  }
  const format = STEPS.find((candidate) => seconds < candidate.limitSeconds) ?? YEARS_FORMAT;
  const largestUnit = `${String(Math.floor(seconds / format.unit))}${format.letter}`;
  const [unit, letter] = format.smallerUnit ?? [0, ""];
  const smallerCount = unit === 0 ? 0 : Math.floor((seconds % format.unit) / unit);
  return smallerCount === 0 ? largestUnit : `${largestUnit}${String(smallerCount)}${letter}`;
}

export function printAge(text: unknown, nowMs: number): string {
  const timeMs = typeof text === "string" ? parseTime(text) : NaN;
  return Number.isNaN(timeMs) ? "<unknown>" : humanDuration(nowMs - timeMs);
}

export const AGE: Column = {
  name: "Age",
  type: "string",
  description: "Time since the object was created.",
  cell: (object, nowMs) => printAge(object.metadata.creationTimestamp, nowMs),
};
