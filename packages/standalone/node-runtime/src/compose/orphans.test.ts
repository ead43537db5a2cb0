// SPDX-License-Identifier: Apache-2.0
import { buildLayout, type ContainerdLayout } from "@patchbay/containerd";
import { AppError } from "@patchbay/base";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeClock, createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { NODE } from "../testing/pods.ts";
import { createSweeper, sweepAfterReconnects, createSweep } from "./orphans.ts";

function aNode(sweep: () => Promise<void>): {
  readonly clock: ReturnType<typeof createFakeClock>;
  readonly tell: (id: string | undefined) => void;
  readonly stop: AbortController;
} {
  const clock = createFakeClock();
  const stop = new AbortController();
  let tell: (id: string | undefined) => void = () => undefined;
  const watch = (changed: (id: string | undefined) => void): void => {
    tell = changed;
  };
  const runtime = Object.assign(createFakeContainerRuntime(), { watch });
  const sweeper = createSweeper({ sweep, clock, log: createFakeLogger() }, stop.signal);
  sweepAfterReconnects(runtime, sweeper, stop.signal);
  return {
    clock,
    stop,
    tell: (id) => {
      tell(id);
    },
  };
}

test("checks once soon after each connection, and once more later", async () => {
  let sweeps = 0;
  const node = aNode(() => {
    sweeps += 1;
    return Promise.resolve();
  });
  node.tell("container-1");
  await node.clock.advance(60_000);
  expect(sweeps).toBe(0);
  node.tell(undefined);
  await node.clock.advance(1);
  expect(sweeps).toBe(1);
  await node.clock.advance(3000);
  expect(sweeps).toBe(2);
  await node.clock.advance(60_000);
  expect(sweeps).toBe(3);
  node.tell(undefined);
  await node.clock.advance(1);
  expect(sweeps).toBe(4);
  node.stop.abort();
  await node.clock.advance(60_000);
  expect(sweeps).toBe(4);
});

test("retries a runtime that does not respond", async () => {
  let sweeps = 0;
  const node = aNode(() => {
    sweeps += 1;
    return Promise.reject(new AppError("CONTAINERD_FAILED", { call: "ls", reason: "away" }));
  });
  node.tell(undefined);
  await node.clock.advance(3001);
  expect(sweeps).toBe(2);
});

describe("a sweep", () => {
  const facts = { ...NODE, cgroupParent: "/patchbay" };
  const machine = (containerd?: ContainerdLayout) => {
    const files = createFakeFiles();
    const runner = createFakeProcessRunner({ ctr: () => ({ stdout: "" }) });
    const log = createFakeLogger();
    const sweep = createSweep(
      { files, runner, facts, dataplaneGroup: 0, ...(containerd && { containerd }) },
      log,
    );
    return { files, runner, log, sweep };
  };

  test("checks nothing if containerd belongs to another program", async () => {
    const { files, runner, sweep } = machine();
    files.list = () => Promise.reject(new Error("not ours"));
    await sweep();
    expect(runner.commands).toEqual([]);
  });

  test("removes nothing on a machine without shims", async () => {
    const { log, runner, sweep } = machine(
      buildLayout({ directory: "/c", runDirectory: "/run/c", cniConfDirectory: "/cni" }),
    );
    await sweep();
    expect([runner.commands, log.lines]).toEqual([[], []]);
  });
});
