// SPDX-License-Identifier: Apache-2.0
import { describeClockContract } from "@patchbay/os/testing";
import { afterEach, expect, test, vi } from "vitest";
import { createClock } from "./clock.ts";

afterEach(() => {
  vi.useRealTimers();
});

describeClockContract("the machine", () => {
  const clock = createClock();
  return { clock, pass: (ms) => clock.sleep(ms, new AbortController().signal) };
});

test("the wall time is in milliseconds since 1970", () => {
  vi.useFakeTimers({ now: 1_700_000_000_123, toFake: ["Date"] });
  expect(createClock().now()).toBe(1_700_000_000_123);
});
