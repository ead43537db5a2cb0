// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { nextAskInMs } from "./asks.ts";

test.each([
  { changedAgoMs: 0, asks: 0, want: 500 },
  { changedAgoMs: 400, asks: 0, want: 100 },
  { changedAgoMs: 900, asks: 0, want: 0 },
  { changedAgoMs: 900, asks: 1, want: 2_100 },
  { changedAgoMs: 100_000, asks: 3, want: 0 },
  { changedAgoMs: 100_000, asks: 4, askedAgoMs: 40_000, want: 80_000 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 120_000, want: 0 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 5_000, failures: 1, want: 10_000 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 120_000, failures: 1, want: 0 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 120_000, failures: 2, want: 360_000 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 0, failures: 2, want: 480_000 },
  { changedAgoMs: 900_000, asks: 9, askedAgoMs: 0, failures: 50, want: 960_000 },
])(
  "$changedAgoMs ms after a change, $asks questions, $failures unanswered: the next is due in $want",
  ({ want, ...history }) => {
    expect(nextAskInMs({ askedAgoMs: 0, failures: 0, ...history })).toBe(want);
  },
);
