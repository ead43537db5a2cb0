// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createDeferrals } from "./deferrals.ts";

test("what is put off is put off no longer than so long, and anew when it was done", async () => {
  const clock = createFakeClock();
  const deferrals = createDeferrals(clock, 100);
  expect(deferrals.leftMs("a")).toBe(100);
  await clock.advance(60);
  expect([deferrals.leftMs("a"), deferrals.leftMs("b")]).toEqual([40, 100]);
  await clock.advance(60);
  expect([deferrals.leftMs("a"), deferrals.leftMs("b")]).toEqual([0, 40]);
  deferrals.end("a");
  expect(deferrals.leftMs("a")).toBe(100);
});
