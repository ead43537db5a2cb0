// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/core";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeClock, createFakeNamespaces, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { findProblem, openSandboxes, waitForRuntime } from "./open-sandboxes.ts";

test("a runtime that comes later is waited for; why it is not there is told once", async () => {
  const clock = createFakeClock();
  const log = createFakeLogger();
  const runtime = createFakeContainerRuntime(clock);
  runtime.stop();
  let isOver = false;
  const waiting = waitForRuntime({ runtime, clock, log }, new AbortController().signal);
  void waiting.then(() => {
    isOver = true;
  });
  for (const ms of [100, 200, 400, 800, 1600, 2000, 2000]) {
    await settle();
    expect(clock.dueMs.map((due) => due - clock.now())).toEqual([ms]);
    await clock.advance(ms);
  }
  expect(isOver).toBe(false);
  runtime.failNext("version", new AppError("CRI_TIMED_OUT", { call: "Version", timeoutMs: 1 }));
  runtime.start();
  await clock.advance(2000);
  await clock.advance(2000);
  await waiting;
  expect(log.lines).toMatchObject([
    { level: "warn", message: "waiting for the container runtime" },
    { level: "warn", fields: { reason: expect.stringContaining("did not finish") as string } },
    { level: "info", message: "found the container runtime", fields: { name: "fake" } },
  ]);
});

test("who stops does not wait any longer, nor does one that never asks keep anything open", async () => {
  const stop = new AbortController();
  const clock = createFakeClock();
  const opened = openSandboxes(
    {
      hostProcess: undefined,
      endpoints: ["unix:///nobody/is/here.sock"],
      namespaces: createFakeNamespaces(),
      clock,
      log: createFakeLogger(),
    },
    stop.signal,
  );
  stop.abort(new Error("stopped"));
  await opened.answered;
  await expect(opened.sandboxes.find("uid-1")).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
  opened.close();
});

test("whether it answers is asked at that moment, and for three seconds at most", async () => {
  const clock = createFakeClock();
  const runtime = createFakeContainerRuntime(clock);
  expect(await findProblem({ runtime, clock })).toBeUndefined();
  runtime.stop();
  expect(await findProblem({ runtime, clock })).toContain("no container runtime answers");
  const hangs = { version: () => new Promise<never>(() => undefined) };
  const asked = findProblem({ runtime: hangs, clock });
  await settle();
  await clock.advance(3000);
  expect(await asked).toContain("did not finish Version within 3000 ms");
  runtime.start();
  expect(await findProblem({ runtime, clock })).toBeUndefined();
  expect(clock.dueMs).toEqual([]);
});
