// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/core";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createSweeper, sweepAfterCuts } from "./orphans.ts";

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
  sweepAfterCuts(runtime, sweeper, stop.signal);
  return {
    clock,
    stop,
    tell: (id) => {
      tell(id);
    },
  };
}

test("after each connection is looked at once, soon, and once more", async () => {
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

test("a runtime that cannot be asked is asked again", async () => {
  let sweeps = 0;
  const node = aNode(() => {
    sweeps += 1;
    return Promise.reject(new AppError("CONTAINERD_FAILED", { call: "ls", reason: "away" }));
  });
  node.tell(undefined);
  await node.clock.advance(3001);
  expect(sweeps).toBe(2);
});
