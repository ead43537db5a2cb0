// SPDX-License-Identifier: Apache-2.0
// How ages are shown. Source: Kubernetes util/duration.HumanDuration.
import type { Column } from "../kinds/kind.ts";
import { parseTime } from "../objects/time.ts";

const SECOND = 1;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

interface Form {
  readonly unit: number;
  readonly letter: string;
  /** The smaller unit that is shown beside, where it is not 0. */
  readonly rest?: readonly [number, string];
}

interface Step extends Form {
  /** Below this many seconds. */
  readonly below: number;
}

const STEPS: readonly Step[] = [
  { below: 2 * MINUTE, unit: SECOND, letter: "s" },
  { below: 10 * MINUTE, unit: MINUTE, letter: "m", rest: [SECOND, "s"] },
  { below: 3 * HOUR, unit: MINUTE, letter: "m" },
  { below: 8 * HOUR, unit: HOUR, letter: "h", rest: [MINUTE, "m"] },
  { below: 2 * DAY, unit: HOUR, letter: "h" },
  { below: 8 * DAY, unit: DAY, letter: "d", rest: [HOUR, "h"] },
  { below: 2 * YEAR, unit: DAY, letter: "d" },
  { below: 8 * YEAR, unit: YEAR, letter: "y", rest: [DAY, "d"] },
];
const YEARS: Form = { unit: YEAR, letter: "y" };

/** A duration for people; zero where it has not begun. */
function humanDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 0) {
    return "0s";
  }
  const step = STEPS.find((candidate) => seconds < candidate.below) ?? YEARS;
  const whole = `${String(Math.floor(seconds / step.unit))}${step.letter}`;
  const [unit, letter] = step.rest ?? [0, ""];
  const rest = unit === 0 ? 0 : Math.floor((seconds % step.unit) / unit);
  return rest === 0 ? whole : `${whole}${String(rest)}${letter}`;
}

/** Time since `text` (RFC 3339), for people. */
export function ageOf(text: unknown, nowMs: number): string {
  const since = typeof text === "string" ? parseTime(text) : NaN;
  return Number.isNaN(since) ? "<unknown>" : humanDuration(nowMs - since);
}

/** The column Age. */
export const AGE: Column = {
  name: "Age",
  type: "string",
  description: "Time since the object was created.",
  cell: (object, nowMs) => ageOf(object.metadata.creationTimestamp, nowMs),
};
