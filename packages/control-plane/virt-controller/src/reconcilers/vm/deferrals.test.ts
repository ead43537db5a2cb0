// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createDeferrals } from "./deferrals.ts";

test("limits the delay of a write, and restarts it after the write", async () => {
  const clock = createFakeClock();
  const deferrals = createDeferrals(clock, 100);
  expect(deferrals.remainingMs("a")).toBe(100);
  await clock.advance(60);
  expect([deferrals.remainingMs("a"), deferrals.remainingMs("b")]).toEqual([40, 100]);
  await clock.advance(60);
  expect([deferrals.remainingMs("a"), deferrals.remainingMs("b")]).toEqual([0, 40]);
  deferrals.end("a");
  expect(deferrals.remainingMs("a")).toBe(100);
});
