// SPDX-License-Identifier: Apache-2.0
// Answers that clients do not read.
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { disconnectWhenUnread } from "./send-pieces.ts";

test.each([
  { waiting: 1, want: true },
  { waiting: 0, want: false },
])(
  "with $waiting bytes pending, a client that does not read is cut off: $want",
  ({ waiting, want }) => {
    const timers: { ms: number; run: () => void }[] = [];
    const response = {
      writableLength: waiting,
      destroyed: false,
      setTimeout: (ms: number, run: () => void) => timers.push({ ms, run }),
      destroy: () => {
        response.destroyed = true;
      },
    };
    disconnectWhenUnread(response as unknown as ServerResponse, 30);
    expect(timers.map(({ ms }) => ms)).toEqual([30]);
    timers[0]?.run();
    expect(response.destroyed).toBe(want);
  },
);
