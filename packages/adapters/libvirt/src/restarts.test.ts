// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Restarts } from "./restarts.ts";

test("a child is started again at once, then after waits that grow to half a minute", () => {
  const restarts = new Restarts();
  const pauses = [restarts.pauseMs];
  for (let end = 0; end < 9; end += 1) {
    restarts.noteEnd(1000);
    pauses.push(restarts.pauseMs);
  }
  expect(pauses).toEqual([0, 0, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
});

test("the end of a child that lived a minute is a first one", () => {
  const restarts = new Restarts();
  for (let end = 0; end < 9; end += 1) restarts.noteEnd(1000);
  restarts.noteEnd(60_000);
  expect(restarts.pauseMs).toBe(0);
  restarts.noteEnd(59_999);
  expect(restarts.pauseMs).toBe(500);
});
