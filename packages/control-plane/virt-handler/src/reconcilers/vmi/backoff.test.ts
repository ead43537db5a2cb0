// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createRateLimits } from "../../rate-limits.ts";
import { aScheduledVmi } from "../../testing/scene.ts";
import { findDelayMs } from "./index.ts";

const VMI = aScheduledVmi([]);
const POD = { uid: "pod-uid", namespace: "default", name: "launcher" };

/** What holds the VMI back while its launcher is to be left alone for so long. */
function heldFor(
  backoffMs: number,
  { passBudget } = createRateLimits(createFakeClock()),
): number | undefined {
  const sessions = {
    backoffMs: () => backoffMs,
    use: () => Promise.reject(new Error("nobody works with a session here")),
    netnsOf: () => undefined,
    close: () => undefined,
    closeAll: () => undefined,
  };
  return findDelayMs(VMI, POD, { passBudget, sessions });
}

test("a VMI whose launcher may be asked is not held back", () => {
  expect(heldFor(0)).toBeUndefined();
});

test("a VMI is held back for as long as its launcher is to be left alone", () => {
  expect(heldFor(1_234)).toBe(1_234);
});

test("a VMI that has had enough passes is held back for a second", () => {
  const pace = createRateLimits(createFakeClock());
  while (pace.passBudget.take(VMI));
  expect(heldFor(0, pace)).toBe(1_000);
});

test("a launcher that is left alone costs the VMI no pass", () => {
  const pace = createRateLimits(createFakeClock());
  for (let look = 0; look < 100; look += 1) heldFor(1, pace);
  expect(heldFor(0, pace)).toBeUndefined();
});
