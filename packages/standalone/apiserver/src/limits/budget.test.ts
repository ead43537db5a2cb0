// SPDX-License-Identifier: Apache-2.0
// Is no more spent than there is, and does nobody wait for ever?
import { expect, test } from "vitest";
import { Budget } from "./budget.ts";

const NEVER = new AbortController().signal;

test("a reservation waits until earlier ones are released, in order", async () => {
  const budget = new Budget(10);
  const order: string[] = [];
  await budget.reserve(8, NEVER);
  const first = budget.reserve(5, NEVER).then(() => order.push("first"));
  // There is room for this one, but it came later.
  const second = budget.reserve(2, NEVER).then(() => order.push("second"));
  await Promise.resolve();
  expect(order).toEqual([]);
  budget.release(8);
  await Promise.all([first, second]);
  expect(order).toEqual(["first", "second"]);
});

test("grants more than the whole budget once everything is released", async () => {
  const budget = new Budget(10);
  budget.spend(4);
  const large = budget.reserve(100, NEVER);
  budget.release(4);
  expect(await large).toBe(true);
  expect(budget.isSpent).toBe(true);
});

test("a canceled reservation uses nothing and unblocks the next one", async () => {
  const budget = new Budget(10);
  await budget.reserve(6, NEVER);
  const stop = new AbortController();
  const leaving = budget.reserve(8, stop.signal);
  const next = budget.reserve(4, NEVER);
  stop.abort();
  expect(await leaving).toBe(false);
  expect(await next).toBe(true);
  expect(await budget.reserve(1, stop.signal)).toBe(false);
});
