// SPDX-License-Identifier: Apache-2.0
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { createFakeClock } from "@patchbay/os/testing";
import { stopSignals } from "./run-daemon.ts";

test("stops once, at the end of the first drain, when two signals arrive", async () => {
  const clock = createFakeClock();
  const { drainSignal, signal } = stopSignals(
    { drainMs: 1000 },
    { clock, log: createSilentLogger() },
  );
  process.emit("SIGTERM");
  expect(drainSignal.aborted).toBe(true);
  await clock.advance(500);
  process.emit("SIGINT");
  expect(signal.aborted).toBe(false);
  await clock.advance(500);
  expect(signal.aborted).toBe(true);
  expect(signal.reason).toEqual(new Error("stopped by SIGTERM"));
});
