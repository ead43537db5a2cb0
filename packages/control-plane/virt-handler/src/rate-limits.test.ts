// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { createRateLimits, type Budget } from "./rate-limits.ts";
import { aScheduledVmi, attachment } from "./testing/scene.ts";

const VMI = aScheduledVmi(["one"]);
const OTHER = { ...VMI, metadata: { ...VMI.metadata, uid: "another" } };
const CHANGED = aScheduledVmi(["one"], { attachments: [attachment("one", "Failed")] });

let clock: FakeClock;
let passBudget: Budget;
let writeBudget: Budget;

/** The number of passes that the VMI gets now. */
function burst(vmi = VMI, budget = passBudget): number {
  let taken = 0;
  while (budget.take(vmi)) taken += 1;
  return taken;
}

beforeEach(() => {
  clock = createFakeClock();
  ({ passBudget, writeBudget } = createRateLimits(clock));
});

test("allows a VMI 50 passes at once, then one a second", async () => {
  expect(burst()).toBe(50);
  await clock.advance(999);
  expect(burst()).toBe(0);
  await clock.advance(1);
  expect(burst()).toBe(1);
});

test("allows 20 status writes at once, then one in ten seconds", async () => {
  expect(burst(VMI, writeBudget)).toBe(20);
  await clock.advance(9_999);
  expect(burst(VMI, writeBudget)).toBe(0);
  await clock.advance(1);
  expect(burst(VMI, writeBudget)).toBe(1);
  expect(burst()).toBe(50);
});

test("limits each VMI separately", () => {
  burst();
  expect(burst(OTHER)).toBe(50);
});

test("refills the budget for changes by other components, but not for its own writes", () => {
  burst();
  expect(burst({ ...VMI, status: { ...VMI.status, phase: "Running" } })).toBe(0);
  expect(burst(CHANGED)).toBe(50);
});

test("starts afresh after a VMI was forgotten", () => {
  burst();
  passBudget.forget(VMI.metadata.uid ?? "");
  expect(burst()).toBe(50);
});
