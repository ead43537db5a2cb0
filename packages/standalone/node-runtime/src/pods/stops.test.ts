// SPDX-License-Identifier: Apache-2.0
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { createStops, type Stops } from "./stops.ts";

let clock: ReturnType<typeof createFakeClock>;
let log: ReturnType<typeof createFakeLogger>;
let requests: string[];
let woken: string[];
/** Ends the calls of the runtime that have not ended, in order. */
let pending: PromiseWithResolvers<undefined>[];
let stops: Stops;

beforeEach(() => {
  clock = createFakeClock();
  log = createFakeLogger();
  [requests, woken, pending] = [[], [], []];
  const runtime = createFakeContainerRuntime(clock);
  runtime.stopContainer = async (id, graceSeconds) => {
    requests.push(`${id} ${String(graceSeconds)}`);
    const call = Promise.withResolvers<undefined>();
    pending.push(call);
    await call.promise;
  };
  const wake = (uid: string, afterMs: number): void => {
    woken.push(`${uid} ${String(afterMs)}`);
  };
  stops = createStops({ runtime, clock, log, wake });
});

test("triggers a pod when its container has ended", async () => {
  stops.begin("pod-1", "c1", 30);
  await settle();
  expect([requests, woken]).toEqual([["c1 30"], []]);
  pending[0]?.resolve(undefined);
  await settle();
  expect([woken, log.lines]).toEqual([["pod-1 0"], []]);
});

test("triggers a pod after a second when its container cannot be stopped, and logs the reason", async () => {
  stops.begin("pod-1", "c1", 30);
  pending[0]?.reject(new Error("no such process"));
  await settle();
  expect(woken).toEqual(["pod-1 1000"]);
  expect(log.lines).toEqual([
    {
      level: "warn",
      message: "container cannot be stopped",
      fields: { uid: "pod-1", object: "c1", reason: "no such process" },
    },
  ]);
});

test.each([
  { name: "later", afterMs: 0, grace: 40, want: false },
  { name: "at the same time", afterMs: 10_000, grace: 20, want: false },
  { name: "less than a second sooner", afterMs: 10_001, grace: 19, want: false },
  { name: "a second sooner", afterMs: 10_000, grace: 19, want: true },
  { name: "at once", afterMs: 0, grace: 0, want: true },
])("repeats the stop of a container that must end $name", async ({ afterMs, grace, want }) => {
  stops.begin("pod-1", "c1", 30);
  await clock.advance(afterMs);
  stops.begin("pod-1", "c1", grace);
  expect(requests.slice(1)).toEqual(want ? [`c1 ${String(grace)}`] : []);
});

test("stops each container separately", () => {
  stops.begin("pod-1", "c1", 30);
  stops.begin("pod-1", "c2", 30);
  expect(requests).toEqual(["c1 30", "c2 30"]);
});

test("repeats a stop after the call has ended", async () => {
  stops.begin("pod-1", "c1", 30);
  pending[0]?.resolve(undefined);
  await settle();
  stops.begin("pod-1", "c1", 30);
  expect(requests).toEqual(["c1 30", "c1 30"]);
});

test("the end of an earlier call does not affect a later one", async () => {
  stops.begin("pod-1", "c1", 30);
  stops.begin("pod-1", "c1", 10);
  pending[0]?.resolve(undefined);
  await settle();
  stops.begin("pod-1", "c1", 10);
  expect(requests).toEqual(["c1 30", "c1 10"]);
});
