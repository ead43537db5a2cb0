// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { createUnplugRequests } from "./unplug-requests.ts";

test("a guest that was not asked has no last request", () => {
  const requests = createUnplugRequests(createFakeClock());
  expect(requests.agoMs("a", "one")).toBeUndefined();
  expect(requests.count("a", "one")).toBe(0);
});

test("requests are counted from those of earlier processes, and timed from the last", async () => {
  const clock = createFakeClock();
  const requests = createUnplugRequests(clock);
  requests.note("a", "one", 3);
  await clock.advance(500);
  requests.note("a", "one", 3);
  await clock.advance(20);
  expect(requests.count("a", "one")).toBe(5);
  expect(requests.agoMs("a", "one")).toBe(20);
  expect(requests.count("a", "two")).toBe(0);
  expect(requests.count("b", "one")).toBe(0);
});

test("those of ifaces that let go are forgotten, and of no other VMI", () => {
  const requests = createUnplugRequests(createFakeClock());
  for (const uid of ["a", "b"]) for (const iface of ["one", "two"]) requests.note(uid, iface, 0);
  requests.retain("a", ["two"]);
  const counts = ["a", "b"].map((uid) => ["one", "two"].map((iface) => requests.count(uid, iface)));
  expect(counts).toEqual([
    [0, 1],
    [1, 1],
  ]);
  requests.retain("a", []);
  requests.retain("c", []);
  expect(requests.count("a", "two")).toBe(0);
});
