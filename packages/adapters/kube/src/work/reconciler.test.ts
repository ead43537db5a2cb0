// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { QueueStats } from "@patchbay/core/metrics";
import { type FakeClock, createFakeClock, settle } from "@patchbay/os/testing";
import { type FakeLogger, createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import {
  createQueue,
  after,
  done,
  runReconciler,
  type LostWriteReporter,
  type Next,
} from "./reconciler.ts";

interface Loop {
  readonly clock: FakeClock;
  readonly add: (key: string) => void;
  readonly passes: readonly string[];
  readonly lines: FakeLogger["lines"];
  readonly results: readonly string[];
  /** Duration of each pass, seconds. */
  readonly seconds: readonly number[];
  /** What tells of the queue, by the loop's name. */
  readonly queues: ReadonlyMap<string, () => QueueStats>;
  readonly stop: () => Promise<void>;
}

function start(
  reconcile: (key: string, pass: number) => Promise<Next>,
  concurrency = 1,
  lostWrites?: LostWriteReporter,
): Loop {
  const clock = createFakeClock();
  const queue = createQueue({ clock, concurrency, random: () => 0 });
  const log = createFakeLogger();
  const passes: string[] = [];
  const results: string[] = [];
  const seconds: number[] = [];
  const queues = new Map<string, () => QueueStats>();
  const abort = new AbortController();
  const running = runReconciler(
    {
      name: "test",
      queue,
      log,
      clock,
      ...(lostWrites !== undefined && { lostWrites }),
      metrics: {
        observeReconcile: (pass) => {
          results.push(pass.result);
          seconds.push(pass.seconds);
        },
        addQueue: (name, read) => {
          queues.set(name, read);
        },
      },
      reconcile: (key) => {
        passes.push(key);
        return reconcile(key, passes.filter((pass) => pass === key).length);
      },
    },
    abort.signal,
  );
  const stop = (): Promise<void> => {
    abort.abort();
    return running;
  };
  const add = queue.add.bind(queue);
  return { clock, add, passes, lines: log.lines, results, seconds, queues, stop };
}

test("a worker pauses after a pass, in proportion to its duration", async () => {
  const clock = createFakeClock();
  const queue = createQueue({ clock });
  const abort = new AbortController();
  const startedMs: number[] = [];
  const durationsMs = [10, 900];
  const reconcile = async (): Promise<Next> => {
    startedMs.push(clock.monotonicMs());
    queue.add("table"); // changed meanwhile
    const durationMs = durationsMs[startedMs.length - 1] ?? Infinity;
    await clock.sleep(durationMs, abort.signal).catch(() => undefined);
    return done();
  };
  const pause = { factor: 4, maxMs: 1000 };
  const loop = { name: "test", queue, log: createFakeLogger(), clock, pause, reconcile };
  const running = runReconciler(loop, abort.signal);
  queue.add("table");
  await settle();
  for (let ms = 0; ms < 2000; ms += 10) {
    await clock.advance(10);
    await new Promise((resolve) => setImmediate(resolve)); // as the worker yields
  }
  const [begunMs = 0] = startedMs;
  expect(startedMs.map((ms) => ms - begunMs)).toEqual([0, 50, 1950]);
  abort.abort();
  await clock.advance(0);
  await running;
});

test("passes without I/O yield to the event loop, even with a backlog", async () => {
  const BACKLOG = 1000;
  const [abort, timers] = [new AbortController(), createFakeClock()];
  // Each look at the time costs a millisecond, and so does a pass.
  let nowMs = 0;
  const clock = { ...timers, monotonicMs: () => (nowMs += 1) };
  const queue = createQueue({ clock: timers });
  for (let index = 0; index < BACKLOG; index += 1) queue.add(`old-${String(index)}`);
  const passes: string[] = [];
  const isOver = Promise.withResolvers<undefined>();
  const reconcile = (key: string): Promise<Next> => {
    passes.push(key);
    if (passes.length > BACKLOG) isOver.resolve(undefined);
    return Promise.resolve(done());
  };
  // As a watch: heard of when the process waits for what comes.
  setImmediate(() => {
    queue.add("new");
  });
  const log = createFakeLogger();
  const running = runReconciler({ name: "test", queue, reconcile, log, clock }, abort.signal);
  await isOver.promise;
  abort.abort();
  await running;
  expect(passes.indexOf("new")).toBeGreaterThanOrEqual(0);
  expect(passes.indexOf("new")).toBeLessThan(BACKLOG / 10);
});

describe("a reconciler", () => {
  test("exposes its queue while a pass runs", async () => {
    const work = Promise.withResolvers<Next>();
    const { clock, add, queues, stop } = start(() => work.promise);
    for (const key of ["a", "b", "c"]) add(key);
    await clock.advance(3_000);
    expect(queues.get("test")?.()).toEqual({
      depth: 2,
      adds: 3,
      retries: 0,
      unfinishedSeconds: 3,
      longestRunningSeconds: 3,
    });
    work.resolve(done());
    await stop();
  });

  test("processes each key once and then rests", async () => {
    const loop = start(() => Promise.resolve(done()));
    loop.add("a");
    loop.add("b");
    await settle();
    expect(loop.passes).toEqual(["a", "b"]);
    expect(loop.results).toEqual(["done", "done"]);
    expect(loop.clock.dueMs).toEqual([]);
    expect(loop.lines).toEqual([]);
    await loop.stop();
  });

  test("runs again after the delay that a pass requests", async () => {
    const loop = start((_key, pass) => Promise.resolve(pass === 1 ? after(5000) : done()));
    loop.add("a");
    await settle();
    expect(loop.clock.dueMs).toEqual([5000]);
    await loop.clock.advance(5000);
    expect(loop.passes).toEqual(["a", "a"]);
    await loop.stop();
  });

  test.each([
    {
      name: "is retried soon",
      error: new AppError("KUBE_UNREACHABLE", { server: "s", message: "m" }),
      want: { dueMs: 100, level: "warn" },
    },
    {
      name: "from a write conflict is retried soon and logged at debug level",
      error: new AppError("KUBE_CONFLICT"),
      want: { dueMs: 100, level: "debug" },
    },
    {
      name: "that only an external change can fix is retried late",
      error: new AppError("KUBE_NOT_FOUND"),
      want: { dueMs: 60_000, level: "warn" },
    },
    {
      name: "that only the user can fix is still retried, late",
      error: new AppError("API_INVALID"),
      want: { dueMs: 60_000, level: "warn" },
    },
    {
      name: "without a code is logged as an error and retried soon",
      error: new TypeError("x is not a function"),
      want: { dueMs: 100, level: "error" },
    },
  ])("an error $name, with one log line", async ({ error, want }) => {
    const loop = start(() => Promise.reject(error));
    loop.add("a");
    await settle();
    expect(loop.clock.dueMs).toEqual([want.dueMs]);
    expect(loop.lines).toHaveLength(1);
    expect(loop.lines[0]).toMatchObject({
      level: want.level,
      message: "reconcile failed",
      fields: { key: "a", reconciler: "test", retryMs: want.dueMs },
    });
    expect(loop.results).toEqual(["failed"]);
    await loop.stop();
  });

  test("repeated conflicts are logged as warnings and recorded in an event on the object", async () => {
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "one", namespace: "ns" } };
    const details = { resource: "pods", object: "ns/one", count: 5, message: "the test failed" };
    const recorded: unknown[] = [];
    const reporter: LostWriteReporter = {
      events: {
        record: (object, note) => void recorded.push([object, note]),
        flush: () => Promise.resolve(),
      },
      find: (resource, key) => (`${resource} ${key.name}` === "pods one" ? pod : undefined),
    };
    const errors = [
      new AppError("KUBE_CONFLICT", details),
      new AppError("KUBE_WRITES_LOST", { ...details, object: "ns/gone" }),
    ];
    const lost = new AppError("KUBE_WRITES_LOST", details);
    const loop = start((_key, pass) => Promise.reject(errors[pass - 1] ?? lost), 1, reporter);
    loop.add("a");
    await settle();
    await loop.clock.advance(100);
    expect(recorded).toEqual([]);
    await loop.clock.advance(200);
    const message =
      "5 writes of pods ns/one in a row were refused because it had changed: the test failed";
    expect(recorded).toEqual([[pod, { type: "Warning", reason: "WritesLost", message }]]);
    expect(loop.lines.at(-1)).toMatchObject({ level: "warn", fields: { reason: message } });
    await loop.stop();
  });

  test("logs the code of an error that has one, and the error itself only if unexpected", async () => {
    const fault = new TypeError("x is not a function");
    const errors: readonly Error[] = [new AppError("KUBE_REFUSED"), fault];
    const loop = start((_key, pass) => Promise.reject(errors[pass - 1] ?? fault));
    loop.add("a");
    await settle();
    await loop.clock.advance(60_000);
    const [refused, broken] = loop.lines.map(({ fields }) => fields);
    expect(refused).toMatchObject({ code: "KUBE_REFUSED", attempt: 1, durationMs: 0 });
    expect(refused).not.toHaveProperty("err");
    expect(broken).toMatchObject({ err: fault, reason: "x is not a function" });
    expect(broken).not.toHaveProperty("code");
    await loop.stop();
  });

  test("an error of another kind starts the delays afresh", async () => {
    const errors: readonly Error[] = [new Error("one"), new Error("two"), new TypeError("other")];
    const loop = start((_key, pass) => Promise.reject(errors[pass - 1] ?? new Error("none")));
    loop.add("a");
    await settle();
    await loop.clock.advance(100);
    await loop.clock.advance(200);
    expect(loop.lines.map(({ fields }) => fields["retryMs"])).toEqual([100, 200, 100]);
    await loop.stop();
  });

  test.each<{ name: string; outcome: () => Promise<Next> }>([
    { name: "succeeds", outcome: () => Promise.resolve(done()) },
    { name: "fails", outcome: () => Promise.reject(new Error("no")) },
  ])("the duration of a pass that $name is reported in seconds", async ({ outcome }) => {
    const outcomeReady = Promise.withResolvers<undefined>();
    const loop = start(async (_key, pass) => {
      if (pass === 1) await outcomeReady.promise;
      return outcome();
    });
    await loop.clock.advance(10_000);
    loop.add("a");
    await settle();
    await loop.clock.advance(2500);
    outcomeReady.resolve(undefined);
    await settle();
    expect(loop.seconds).toEqual([2.5]);
    expect(loop.lines.map(({ fields }) => fields["durationMs"])).toEqual(
      loop.results[0] === "failed" ? [2500] : [],
    );
    await loop.stop();
  });

  test("a pass that fails after the stop is neither logged nor retried", async () => {
    const pass = Promise.withResolvers<Next>();
    const loop = start(() => pass.promise);
    loop.add("a");
    await settle();
    const stopped = loop.stop();
    pass.reject(new Error("aborted"));
    await stopped;
    expect([loop.lines, loop.results, loop.clock.dueMs]).toEqual([[], [], []]);
  });

  test("runs without metrics", async () => {
    const clock = createFakeClock();
    const queue = createQueue({ clock });
    const abort = new AbortController();
    let passes = 0;
    const reconcile = (): Promise<Next> => {
      passes += 1;
      return Promise.resolve(done());
    };
    const log = createFakeLogger();
    const running = runReconciler({ name: "test", queue, log, clock, reconcile }, abort.signal);
    queue.add("a");
    await settle();
    abort.abort();
    await running;
    expect(passes).toBe(1);
    expect(log.lines).toEqual([]);
  });

  test("a failing key does not delay others", async () => {
    const loop = start((key) =>
      key === "bad" ? Promise.reject(new Error("no")) : Promise.resolve(done()),
    );
    loop.add("bad");
    loop.add("good");
    await settle();
    expect(loop.passes).toEqual(["bad", "good"]);
    await loop.stop();
  });

  test("shortens the delays again after a success", async () => {
    const loop = start((_key, pass) =>
      pass === 3 ? Promise.resolve(done()) : Promise.reject(new Error("no")),
    );
    loop.add("a");
    await settle();
    await loop.clock.advance(100);
    await loop.clock.advance(200);
    expect(loop.passes).toHaveLength(3);
    loop.add("a");
    await settle();
    expect(loop.clock.dueMs).toEqual([400]);
    await loop.stop();
  });

  test("processes several keys at once, never one key twice", async () => {
    const passes = new Map<string, () => void>();
    const loop = start(
      (key) =>
        new Promise((resolve) => {
          passes.set(key, () => {
            resolve(done());
          });
        }),
      2,
    );
    for (const key of ["a", "a", "b", "c"]) loop.add(key);
    await settle();
    loop.add("a");
    await settle();
    expect(loop.passes).toEqual(["a", "b"]);
    passes.get("a")?.();
    await settle();
    expect(loop.passes).toEqual(["a", "b", "c"]);
    passes.get("b")?.();
    passes.get("c")?.();
    await settle();
    expect(loop.passes).toEqual(["a", "b", "c", "a"]);
    passes.get("a")?.();
    await loop.stop();
  });

  test("stops when the current pass has ended", async () => {
    const pass = Promise.withResolvers<Next>();
    const loop = start(() => pass.promise);
    loop.add("a");
    await settle();
    let isStopped = false;
    const stopped = loop.stop().then(() => {
      isStopped = true;
    });
    await settle();
    expect(isStopped).toBe(false);
    pass.resolve(after(1000));
    await stopped;
    expect(loop.clock.dueMs).toEqual([]);
  });
});
