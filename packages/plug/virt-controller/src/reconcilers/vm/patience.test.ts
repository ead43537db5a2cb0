// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createPatience } from "./patience.ts";

test("what is put off is put off no longer than so long, and anew when it was done", async () => {
  const clock = createFakeClock();
  const patience = createPatience(clock, 100);
  expect(patience.leftMs("a")).toBe(100);
  await clock.advance(60);
  expect([patience.leftMs("a"), patience.leftMs("b")]).toEqual([40, 100]);
  await clock.advance(60);
  expect([patience.leftMs("a"), patience.leftMs("b")]).toEqual([0, 40]);
  patience.end("a");
  expect(patience.leftMs("a")).toBe(100);
});
