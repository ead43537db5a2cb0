// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, type FakeClock, settle } from "@patchbay/os/testing";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createQueue, FairQueue, type Queue, specVersionOf } from "./reconciler.ts";

/** Keys are GROUP/NAME. */
function buildQueue(...keys: readonly string[]): FairQueue {
  const line = new FairQueue((key) => key.split("/")[0] ?? "");
  for (const key of keys) line.add(key);
  return line;
}

function takeAll(line: FairQueue): readonly string[] {
  const taken: string[] = [];
  for (let key = line.take(); key !== undefined; key = line.take()) taken.push(key);
  return taken;
}

test("does not return a removed key, which leaves its group no turn", () => {
  const line = new FairQueue((key) => key.slice(0, 1));
  for (const key of ["a1", "a2", "b1"]) line.add(key);
  expect([line.remove("b1"), line.remove("b1"), line.remove("a2"), line.remove("c")]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect([line.size, line.take(), line.take()]).toEqual([1, "a1", undefined]);
});

describe("a fair queue", () => {
  test.each([
    { name: "nobody", keys: [], want: [] },
    { name: "one group: first come, first served", keys: ["a/2", "a/1"], want: ["a/2", "a/1"] },
    {
      name: "a waiting key keeps its queue position",
      keys: ["a/1", "a/2", "a/1"],
      want: ["a/1", "a/2"],
    },
    {
      name: "a key of a small group does not wait for all keys of a large group",
      keys: ["a/1", "a/2", "a/3", "b/1", "c/1"],
      want: ["a/1", "b/1", "c/1", "a/2", "a/3"],
    },
    {
      name: "groups alternate",
      keys: ["a/1", "a/2", "a/3", "b/1", "b/2"],
      want: ["a/1", "b/1", "a/2", "b/2", "a/3"],
    },
  ])("$name", ({ keys, want }) => {
    const line = buildQueue(...keys);
    expect(line.size).toBe(want.length);
    expect(takeAll(line)).toEqual(want);
    expect(line.size).toBe(0);
  });

  test("a group that returns is queued behind the other groups", () => {
    const line = buildQueue("a/1", "b/1", "b/2");
    expect(line.take()).toBe("a/1");
    line.add("a/2");
    expect(takeAll(line)).toEqual(["b/1", "a/2", "b/2"]);
  });

  test("serves each key once; each other group gets at most one more turn than the key's own before it", () => {
    const key = fc.tuple(fc.constantFrom("a", "b", "c"), fc.nat(9)).map((parts) => parts.join("/"));
    fc.assert(
      fc.property(fc.array(key), (keys) => {
        const taken = takeAll(buildQueue(...keys));
        expect(taken.toSorted()).toEqual([...new Set(keys)].toSorted());
        taken.forEach((one, place) => {
          const before = taken.slice(0, place);
          const ofGroup = (group: string): number =>
            before.filter((other) => other.startsWith(`${group}/`)).length;
          const own = ofGroup(one.slice(0, 1));
          for (const group of ["a", "b", "c"]) expect(ofGroup(group)).toBeLessThanOrEqual(own + 1);
        });
      }),
    );
  });
});

const lost = { code: "LOST" };
const never = new AbortController().signal;

function setUp(): { clock: FakeClock; queue: Queue } {
  const clock = createFakeClock();
  return { clock, queue: createQueue({ clock, random: () => 0 }) };
}

/** The keys that can be taken now, in order; each is done at once. */
async function drain(queue: Queue): Promise<readonly string[]> {
  const keys: string[] = [];
  while (queue.length > 0) {
    const key = await queue.take(never);
    keys.push(key);
    queue.done(key);
  }
  return keys;
}

describe("a queue", () => {
  test("returns keys in order, each once", async () => {
    const { queue } = setUp();
    for (const key of ["b", "a", "b", "c", "a"]) queue.add(key);
    expect(await drain(queue)).toEqual(["b", "a", "c"]);
  });

  test("returns keys of several groups in turn", async () => {
    const queue = createQueue({ clock: createFakeClock(), toGroup: (key) => key.slice(0, 1) });
    for (const key of ["a1", "a2", "a3", "b1"]) queue.add(key);
    expect(queue.listWaiting()).toEqual(["a1", "a2", "a3", "b1"]);
    expect(await drain(queue)).toEqual(["a1", "b1", "a2", "a3"]);
  });

  test("resolves a waiting take when a key is added", async () => {
    const { queue } = setUp();
    const taken = queue.take(never);
    queue.add("a");
    expect(await taken).toBe("a");
    expect(queue.length).toBe(0);
  });

  test("alternates between changed keys and the keys of the initial list", async () => {
    const { queue } = setUp();
    for (const key of ["a", "b", "c", "d", "e"]) queue.add(key);
    expect(await queue.take(never)).toBe("a");
    queue.add("d");
    queue.add("new");
    queue.add("d");
    expect(queue.listWaiting()).toEqual(["d", "new", "b", "c", "e"]);
    expect(queue.length).toBe(5);
    expect(await drain(queue)).toEqual(["b", "d", "c", "new", "e"]);
    expect(queue.readStats().adds).toBe(6);
  });

  test("reports how long a key was queued, and its own statistics", async () => {
    const { clock, queue } = setUp();
    queue.add("a");
    queue.add("b");
    await clock.advance(500);
    const first = await queue.take(never);
    await clock.advance(1_500);
    await queue.take(never);
    expect([queue.waitedMs(first), queue.waitedMs("b"), queue.waitedMs("c")]).toEqual([
      500, 2_000, 0,
    ]);
    queue.retry("b", lost);
    queue.done("b");
    queue.add("c");
    await clock.advance(10);
    expect(queue.readStats()).toEqual({
      depth: 1,
      adds: 3,
      retries: 1,
      unfinishedSeconds: 1.51,
      longestRunningSeconds: 1.51,
    });
  });

  test("does not return a key while it is processed, and returns it again afterwards", async () => {
    const { queue } = setUp();
    queue.add("a");
    await queue.take(never);
    queue.add("a");
    queue.add("a");
    expect(queue.length).toBe(0);
    queue.done("a");
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("a key that is added again is queued behind the others", async () => {
    const { queue } = setUp();
    queue.add("a");
    await queue.take(never);
    queue.add("a");
    queue.add("b");
    queue.done("a");
    expect(await drain(queue)).toEqual(["b", "a"]);
  });

  test("an aborted take gets no key", async () => {
    const { queue } = setUp();
    const abort = new AbortController();
    const refused = queue.take(abort.signal);
    const taken = queue.take(never);
    abort.abort(new Error("stop"));
    await expect(refused).rejects.toThrow("stop");
    queue.add("a");
    expect(await taken).toBe("a");
  });

  test("the earliest of several requested times counts", async () => {
    const { clock, queue } = setUp();
    queue.addAfter("a", 500);
    queue.addAfter("a", 100);
    queue.addAfter("a", 900);
    await settle();
    expect(clock.dueMs).toEqual([100]);
    await clock.advance(100);
    expect(await drain(queue)).toEqual(["a"]);
    expect(clock.dueMs).toEqual([]);
  });

  test("delays each retry of a key longer, up to a minute, and forgets after a success", async () => {
    const { queue } = setUp();
    const waits = Array.from({ length: 12 }, () => queue.retry("a", lost));
    expect(waits.slice(0, 4)).toEqual([100, 200, 400, 800]);
    expect(waits.at(-1)).toBe(60_000);
    expect(queue.retry("b", lost)).toBe(100);
    queue.forget("a");
    expect(queue.countFailures("a")).toBe(0);
    expect(queue.retry("a", lost)).toBe(100);
    await settle();
  });

  test("half of the delay is random", () => {
    const queue = createQueue({ clock: createFakeClock(), random: () => 1 });
    expect(queue.retry("a", lost)).toBe(50);
  });

  test("a success cancels the retry, but not a requested time", async () => {
    const { clock, queue } = setUp();
    queue.retry("a", lost);
    queue.addAfter("a", 5000);
    queue.forget("a");
    await settle();
    expect(clock.dueMs).toEqual([5000]);
  });

  test("allows a failed key only a few early passes, however often it wakes", async () => {
    const { clock, queue } = setUp();
    for (let i = 0; i < 10; i += 1) queue.retry("a", lost); // 51.2 s by now
    let passes = 0;
    for (let tenth = 0; tenth < 200; tenth += 1) {
      queue.add("a");
      for (const key of await drain(queue)) {
        passes += 1;
        queue.retry(key, lost);
      }
      await clock.advance(100);
    }
    expect(passes).toBe(5);
    await clock.advance(60_000);
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("retries a failed key at once when its inputs change", async () => {
    const clock = createFakeClock();
    let generation = 1;
    const queue = createQueue({
      clock,
      random: () => 0,
      readInputs: () => String(generation),
    });
    for (let i = 0; i < 20; i += 1) {
      queue.add("a");
      await drain(queue);
      queue.retry("a", lost);
    }
    queue.add("a");
    expect(await drain(queue)).toEqual([]);
    generation = 2;
    queue.add("a");
    expect(await drain(queue)).toEqual(["a"]);
    expect(queue.retry("a", lost)).toBe(100);
  });

  test("a wake during a slow retry waits only for the backoff", async () => {
    const { clock, queue } = setUp();
    for (let i = 0; i < 6; i += 1) {
      expect(queue.retry("a", { code: "REFUSED", minRetryMs: 300_000 })).toBe(300_000);
      queue.add("a");
      await drain(queue);
    }
    await settle();
    expect(clock.dueMs).toEqual([3200]);
  });

  test("an abort after a take has resolved does not affect others", async () => {
    const { queue } = setUp();
    const abort = new AbortController();
    const taken = queue.take(abort.signal);
    const other = queue.take(never);
    queue.add("a");
    expect(await taken).toBe("a");
    abort.abort(new Error("stop"));
    queue.add("b");
    expect(await other).toBe("b");
  });

  test("rejects a take whose signal is already aborted", async () => {
    const { queue } = setUp();
    queue.add("a");
    await expect(queue.take(AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
    expect(queue.length).toBe(1);
  });

  test("a retry that is due while the key is processed runs afterwards", async () => {
    const { clock, queue } = setUp();
    queue.retry("a", lost);
    queue.add("a"); // an early wake
    expect(await queue.take(never)).toBe("a");
    await clock.advance(100);
    expect(queue.length).toBe(0);
    queue.done("a");
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("a requested time does not end a backoff; only its own end does", async () => {
    const { clock, queue } = setUp();
    for (let i = 0; i < 10; i += 1) queue.retry("a", lost); // 51.2 s by now
    for (let wake = 0; wake < 5; wake += 1) {
      queue.add("a");
      await drain(queue);
    }
    queue.addAfter("a", 1000);
    await clock.advance(1000);
    expect(queue.length).toBe(0);
    await clock.advance(50_200);
    expect(await drain(queue)).toEqual(["a"]);
  });

  test("a time that has passed can be requested again", async () => {
    const { clock, queue } = setUp();
    for (const ms of [100, 300]) {
      queue.addAfter("a", ms);
      await clock.advance(ms);
      expect(await drain(queue)).toEqual(["a"]);
    }
  });

  test("returns nothing once it is closed", async () => {
    const { clock, queue } = setUp();
    queue.addAfter("a", 10);
    queue.retry("b", lost);
    queue.close();
    queue.add("c");
    queue.addAfter("d", 1);
    await clock.advance(1000);
    expect(queue.length).toBe(0);
    expect(clock.dueMs).toEqual([]);
  });
});

describe("the desired state of an object", () => {
  const metadata = { name: "a", uid: "uid-1", generation: 3, labels: {}, resourceVersion: "7" };
  const object = { apiVersion: "v1", kind: "Thing", metadata };
  const withMetadata = (change: object): string =>
    specVersionOf({ ...object, metadata: { ...metadata, ...change } });

  test.each([
    { name: "another object with the same name", change: { uid: "uid-2" } },
    { name: "another spec", change: { generation: 4 } },
    { name: "its deletion", change: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
  ])("changes with $name", ({ change }) => {
    expect(withMetadata(change)).not.toBe(specVersionOf(object));
    expect(withMetadata(change)).not.toBe(specVersionOf(undefined));
  });

  test("does not change with labels and resource version", () => {
    expect(withMetadata({ labels: { a: "b" }, resourceVersion: "8" })).toBe(specVersionOf(object));
    expect(specVersionOf(undefined)).toBe(specVersionOf(undefined));
  });
});
