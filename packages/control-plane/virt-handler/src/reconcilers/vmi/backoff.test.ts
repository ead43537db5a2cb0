// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createRateLimits } from "../../rate-limits.ts";
import { aScheduledVmi } from "../../testing/scene.ts";
import { findDelayMs } from "../../loop.ts";

const VMI = aScheduledVmi([]);
const POD = { uid: "pod-uid", namespace: "default", name: "launcher" };

/** The VMI's delay while its launcher backs off for this time. */
function heldFor(
  backoffMs: number,
  { passBudget } = createRateLimits(createFakeClock()),
): number | undefined {
  const sessions = {
    backoffMs: () => backoffMs,
    use: () => Promise.reject(new Error("nobody works with a session here")),
    findNetns: () => undefined,
    close: () => undefined,
    closeAll: () => undefined,
  };
  return findDelayMs(VMI, POD, { passBudget, sessions });
}

test("does not delay a VMI whose launcher is available", () => {
  expect(heldFor(0)).toBeUndefined();
});

test("delays a VMI while its launcher backs off", () => {
  expect(heldFor(1_234)).toBe(1_234);
});

test("delays a VMI for a second when its passes are used up", () => {
  const pace = createRateLimits(createFakeClock());
  while (pace.passBudget.take(VMI));
  expect(heldFor(0, pace)).toBe(1_000);
});

test("uses no pass while the launcher backs off", () => {
  const pace = createRateLimits(createFakeClock());
  for (let look = 0; look < 100; look += 1) heldFor(1, pace);
  expect(heldFor(0, pace)).toBeUndefined();
});
