// SPDX-License-Identifier: Apache-2.0
// Ages as kubectl prints them. Source: Kubernetes util/duration.HumanDuration.
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
  /** The smaller unit that is also printed, unless it is 0. */
  readonly smallerUnit?: readonly [number, string];
}

interface AgeStep extends AgeFormat {
  /** Upper bound in seconds, exclusive. */
  readonly below: number;
}

const STEPS: readonly AgeStep[] = [
  { below: 2 * MINUTE, unit: SECOND, letter: "s" },
  { below: 10 * MINUTE, unit: MINUTE, letter: "m", smallerUnit: [SECOND, "s"] },
  { below: 3 * HOUR, unit: MINUTE, letter: "m" },
  { below: 8 * HOUR, unit: HOUR, letter: "h", smallerUnit: [MINUTE, "m"] },
  { below: 2 * DAY, unit: HOUR, letter: "h" },
  { below: 8 * DAY, unit: DAY, letter: "d", smallerUnit: [HOUR, "h"] },
  { below: 2 * YEAR, unit: DAY, letter: "d" },
  { below: 8 * YEAR, unit: YEAR, letter: "y", smallerUnit: [DAY, "d"] },
];
const YEARS_FORMAT: AgeFormat = { unit: YEAR, letter: "y" };

function humanDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 0) {
    return "0s";
  }
  const step = STEPS.find((candidate) => seconds < candidate.below) ?? YEARS_FORMAT;
  const printed = `${String(Math.floor(seconds / step.unit))}${step.letter}`;
  const [unit, letter] = step.smallerUnit ?? [0, ""];
  const rest = unit === 0 ? 0 : Math.floor((seconds % step.unit) / unit);
  return rest === 0 ? printed : `${printed}${String(rest)}${letter}`;
}

export function printAge(text: unknown, nowMs: number): string {
  const since = typeof text === "string" ? parseTime(text) : NaN;
  return Number.isNaN(since) ? "<unknown>" : humanDuration(nowMs - since);
}

export const AGE: Column = {
  name: "Age",
  type: "string",
  description: "Time since the object was created.",
  cell: (object, nowMs) => printAge(object.metadata.creationTimestamp, nowMs),
};
