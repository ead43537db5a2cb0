// SPDX-License-Identifier: Apache-2.0
// When does a service live, and when does it do its work?
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { DaemonHealth } from "./health.ts";

const LIMIT_MS = 1000;
let clock: ReturnType<typeof createFakeClock>;
let log: ReturnType<typeof createFakeLogger>;
let health: DaemonHealth;

beforeEach(() => {
  clock = createFakeClock();
  log = createFakeLogger();
  health = new DaemonHealth({ clock, log });
});

test("a service is ready when it has started and each loop has handled its first listing", async () => {
  const [pods, vms] = [health.watchLoop("pod"), health.watchLoop("vm")];
  pods.start([]);
  vms.start(["ns1/vm1"]);
  const pass = vms.begin("ns1/vm1");
  expect(await health.isReady()).toBe(false);
  health.ready();
  expect(await health.isReady()).toBe(false);
  pass.end(true);
  expect(await health.isReady()).toBe(true);
});

test("a service whose loop has not begun is not ready", async () => {
  health.watchLoop("pod");
  health.ready();
  expect(await health.isReady()).toBe(false);
});

test("runs a check each time, and logs its problem once", async () => {
  let problem: string | undefined;
  health.addCheck(() => Promise.resolve(problem));
  health.ready();
  expect(await health.isReady()).toBe(true);
  problem = "no runtime";
  for (let attempt = 0; attempt < 3; attempt += 1) expect(await health.isReady()).toBe(false);
  problem = undefined;
  expect(await health.isReady()).toBe(true);
  expect(log.lines).toMatchObject([
    {
      level: "error",
      message: "the service is not ready for its work",
      fields: { reason: "no runtime" },
    },
  ]);
});

test("a check that fails counts as a problem", async () => {
  health.addCheck(() => Promise.reject(new Error("broken")));
  health.ready();
  expect(await health.isReady()).toBe(false);
});

test("a service with a stuck loop is not live, which is logged once; a loop at rest is not stuck", async () => {
  const loop = health.watchLoop("pod", LIMIT_MS);
  expect(health.isLive()).toBe(true);
  loop.start([]);
  const pass = loop.begin("ns1/pod1");
  await clock.advance(LIMIT_MS + 1);
  expect([health.isLive(), health.isLive()]).toEqual([false, false]);
  pass.end(true);
  await clock.advance(1000 * LIMIT_MS);
  expect(health.isLive()).toBe(true);
  expect(log.lines).toMatchObject([
    { level: "error", message: "a loop is stuck", fields: { reason: "pod ns1/pod1" } },
  ]);
});
