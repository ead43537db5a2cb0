// SPDX-License-Identifier: Apache-2.0
// When has a loop acted on its first listing, and when does it stand still?
import { createFakeClock, settle, type FakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { LoopWatch } from "./loop-watch.ts";
import { createQueue, type Queue, done, runReconciler, type Reconciler } from "./reconciler.ts";

const LIMIT_MS = 1000;
let clock: FakeClock;
let watch: LoopWatch;

beforeEach(() => {
  clock = createFakeClock();
  watch = new LoopWatch("pod", clock, LIMIT_MS);
});

describe("whether the first listing has been handled", () => {
  test("is false before the loop begins, and true at once when no key waits", () => {
    expect(watch.isStarted()).toBe(false);
    watch.start([]);
    expect(watch.isStarted()).toBe(true);
  });

  test.each([
    { name: "each listed key has succeeded", passes: { a: true, b: true }, want: true },
    { name: "one listed key has not been processed", passes: { a: true }, want: false },
    { name: "one of two listed keys fails", passes: { a: false, b: true }, want: true },
    { name: "all listed keys fail", passes: { a: false, b: false }, want: false },
    {
      name: "all listed keys fail but a later key succeeds",
      passes: { a: false, b: false, c: true },
      want: true,
    },
    { name: "only a later key has been processed", passes: { c: true }, want: false },
  ])("when $name: $want", ({ passes, want }) => {
    watch.start(["a", "b"]);
    for (const [key, hasWorked] of Object.entries(passes)) watch.begin(key).end(hasWorked);
    expect(watch.isStarted()).toBe(want);
  });

  test("stays true, whatever fails afterwards", () => {
    watch.start(["a"]);
    watch.begin("a").end(true);
    watch.begin("b").end(false);
    expect(watch.isStarted()).toBe(true);
  });
});

describe("a loop is stuck", () => {
  test("while a pass exceeds its time limit, until the pass ends", async () => {
    watch.start([]);
    const pass = watch.begin("a");
    await clock.advance(LIMIT_MS);
    watch.begin("b");
    expect(watch.findStuckPass()).toBeUndefined();
    await clock.advance(1);
    expect(watch.findStuckPass()).toEqual({ loop: "pod", key: "a", stuckMs: LIMIT_MS + 1 });
    pass.end(false);
    expect(watch.findStuckPass()).toBeUndefined();
  });

  test("unless its steps end one after the other", async () => {
    const pass = watch.begin("a");
    for (let step = 0; step < 3; step += 1) {
      await clock.advance(LIMIT_MS);
      pass.recordProgress();
    }
    expect(watch.findStuckPass()).toBeUndefined();
  });

  test("unless it is at rest", async () => {
    watch.start(["a"]);
    watch.begin("a").end(true);
    await clock.advance(1000 * LIMIT_MS);
    expect(watch.findStuckPass()).toBeUndefined();
  });
});

describe("a watched reconciler", () => {
  let queue: Queue;
  let stop: AbortController;

  function run(reconcile: Reconciler["reconcile"]): Promise<void> {
    const loop = { name: "pod", queue, reconcile, watch, clock, log: createFakeLogger() };
    return runReconciler(loop, stop.signal);
  }

  beforeEach(() => {
    queue = createQueue({ clock });
    stop = new AbortController();
    queue.add("a");
    queue.add("b");
  });

  test("is started after a pass over each key that waited", async () => {
    const passes: PromiseWithResolvers<ReturnType<typeof done>>[] = [];
    const running = run(() => {
      const pass = Promise.withResolvers<ReturnType<typeof done>>();
      passes.push(pass);
      return pass.promise;
    });
    for (const want of [false, false, true]) {
      await settle();
      expect(watch.isStarted()).toBe(want);
      passes.at(-1)?.resolve(done());
    }
    stop.abort();
    await running;
  });

  test("is stuck in the key whose pass hangs, until a step makes progress", async () => {
    const hangs = Promise.withResolvers<ReturnType<typeof done>>();
    let progressed: (() => void) | undefined;
    const running = run((_key, _signal, reportProgress) => {
      progressed = reportProgress;
      return hangs.promise;
    });
    await settle();
    await clock.advance(LIMIT_MS + 1);
    expect(watch.findStuckPass()).toMatchObject({ key: "a" });
    progressed?.();
    expect(watch.findStuckPass()).toBeUndefined();
    stop.abort();
    hangs.resolve(done());
    await running;
  });
});
