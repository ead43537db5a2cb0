// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createUnplugRequests } from "./memory.ts";

test("has no request for a guest without requests, and records no refusal", () => {
  const requests = createUnplugRequests(createFakeClock());
  requests.recordRefusal("a", "one");
  expect(requests.find("a", "one")).toBeUndefined();
});

test("counts from the requests of earlier processes, and times from the last one", async () => {
  const clock = createFakeClock();
  const requests = createUnplugRequests(clock);
  requests.record("a", "one", 3);
  await clock.advance(500);
  requests.record("a", "one", 3);
  await clock.advance(20);
  expect(requests.find("a", "one")).toEqual({ count: 5, agoMs: 20, isRefused: false });
  expect(requests.find("a", "two")).toBeUndefined();
  expect(requests.find("b", "one")).toBeUndefined();
});

test("a refusal applies to the last request only", () => {
  const requests = createUnplugRequests(createFakeClock());
  requests.record("a", "one", 0);
  requests.recordRefusal("a", "one");
  expect(requests.find("a", "one")).toEqual({ count: 1, agoMs: 0, isRefused: true });
  requests.record("a", "one", 0);
  expect(requests.find("a", "one")).toEqual({ count: 2, agoMs: 0, isRefused: false });
});

test("undoing a record restores the previous request", async () => {
  const clock = createFakeClock();
  const requests = createUnplugRequests(clock);
  requests.record("a", "one", 0)();
  expect(requests.find("a", "one")).toBeUndefined();
  requests.record("a", "one", 0);
  await clock.advance(20);
  requests.record("a", "one", 0)();
  expect(requests.find("a", "one")).toEqual({ count: 1, agoMs: 20, isRefused: false });
});

test("forgets the requests of released ifaces, and none of another VMI", () => {
  const requests = createUnplugRequests(createFakeClock());
  const counts = (): unknown =>
    ["a", "b"].map((uid) => ["one", "two"].map((iface) => requests.find(uid, iface)?.count ?? 0));
  for (const uid of ["a", "b"]) for (const iface of ["one", "two"]) requests.record(uid, iface, 0);
  requests.retain("a", ["two"]);
  expect(counts()).toEqual([
    [0, 1],
    [1, 1],
  ]);
  requests.retain("a", []);
  requests.retain("c", []);
  expect(counts()).toEqual([
    [0, 0],
    [1, 1],
  ]);
});
