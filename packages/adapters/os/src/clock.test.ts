// SPDX-License-Identifier: Apache-2.0
import { describeClockContract } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createClock } from "./clock.ts";

describeClockContract("the machine", () => {
  const clock = createClock();
  return { clock, pass: (ms) => clock.sleep(ms, new AbortController().signal) };
});

test("wall time is told in milliseconds", () => {
  expect(Math.abs(createClock().now() - Date.now())).toBeLessThan(1000);
});
