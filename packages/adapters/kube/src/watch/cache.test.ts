// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import type { Change, ObjectKey } from "@patchbay/core/interfaces";
import { describeCacheContract } from "@patchbay/kube/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { Subject } from "rxjs";
import { describe, expect, test } from "vitest";
import { createCache, ObjectWatches, type StartableCache, waitForCaches } from "./cache.ts";
import type { Reflection } from "./reflector.ts";

const NEVER = { synced: () => Promise.withResolvers<undefined>().promise };

test("the wait ends when every cache has its first list", async () => {
  const slow = Promise.withResolvers<undefined>();
  let isOver = false;
  const quick = { synced: () => Promise.resolve() };
  const wait = waitForCaches(
    [quick, { synced: () => slow.promise }],
    new AbortController().signal,
  ).then(() => (isOver = true));
  await Promise.resolve();
  expect(isOver).toBe(false);
  slow.resolve(undefined);
  await wait;
  expect(isOver).toBe(true);
});

test("the wait ends when the process is stopped", async () => {
  const controller = new AbortController();
  const wait = waitForCaches([NEVER], controller.signal);
  controller.abort();
  await expect(wait).resolves.toBeUndefined();
});

test("does not wait if the process was stopped before", async () => {
  await expect(waitForCaches([NEVER], AbortSignal.abort())).resolves.toBeUndefined();
});

function buildPod(
  name: string,
  resourceVersion: string,
  more: { uid?: string; node?: string } = {},
): Pod {
  const { uid = `uid-${name}`, node } = more;
  return {
    apiVersion: "v1",
    kind: PODS.kind,
    metadata: { namespace: "ns", name, uid, resourceVersion, labels: { big: "x" } },
    spec: { containers: [], ...(node !== undefined && { nodeName: node }) },
  };
}

function describeChange(change: Change<Pod>): string {
  if (change.kind === "deleted") return `-${change.previous.metadata.name}`;
  const { name, resourceVersion } = change.current.metadata;
  return `${change.kind === "added" ? "+" : "~"}${name}@${resourceVersion ?? ""}`;
}

interface Setting {
  readonly cache: StartableCache<Pod>;
  readonly source: Subject<Reflection<Pod>>;
  readonly changes: string[];
  readonly abort: AbortController;
  readonly logger: FakeLogger;
}

function setUp(): Setting {
  const source = new Subject<Reflection<Pod>>();
  const logger = createFakeLogger();
  const cache = createCache(source, {
    logger,
    indexes: { node: (pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) },
  });
  const changes: string[] = [];
  cache.onChange((change) => changes.push(describeChange(change)));
  const abort = new AbortController();
  cache.start(abort.signal);
  return { cache, source, changes, abort, logger };
}

describeCacheContract("fed by a watch", (indexes) => {
  const source = new Subject<Reflection<KubeObject>>();
  const cache = createCache(source, { logger: createFakeLogger(), indexes });
  cache.start(new AbortController().signal);
  source.next({ kind: "listed", objects: [] });
  return {
    cache,
    put: (object) => {
      source.next({ kind: "applied", object });
    },
    take: (metadata) => {
      source.next({ kind: "removed", object: { apiVersion: "v1", kind: "Thing", metadata } });
    },
  };
});

describe("a cache", () => {
  test("is synced after the first list", async () => {
    const { cache, source, changes } = setUp();
    source.next({ kind: "listed", objects: [buildPod("b", "2"), buildPod("a", "1")] });
    await cache.synced();
    expect(changes).toEqual(["+b@2", "+a@1"]);
    expect(cache.list().map((pod) => pod.metadata.name)).toEqual(["a", "b"]);
    expect(cache.find({ namespace: "ns", name: "a" })?.metadata.resourceVersion).toBe("1");
    expect(cache.find({ namespace: "other", name: "a" })).toBeUndefined();
  });

  test("reports changes only", () => {
    const { source, changes } = setUp();
    source.next({ kind: "applied", object: buildPod("a", "1") });
    source.next({ kind: "applied", object: buildPod("a", "1") });
    source.next({ kind: "applied", object: buildPod("a", "2") });
    source.next({ kind: "removed", object: buildPod("a", "3") });
    source.next({ kind: "removed", object: buildPod("a", "3") });
    expect(changes).toEqual(["+a@1", "~a@2", "-a"]);
  });

  test("a new list reports only differences", () => {
    const { source, changes } = setUp();
    source.next({
      kind: "listed",
      objects: [buildPod("a", "1"), buildPod("b", "1"), buildPod("c", "1")],
    });
    changes.length = 0;
    source.next({
      kind: "listed",
      objects: [buildPod("b", "1"), buildPod("c", "4"), buildPod("d", "5")],
    });
    expect(changes).toEqual(["-a", "~c@4", "+d@5"]);
  });

  test("reports a recreated object as a deletion and an addition", () => {
    const { source, changes } = setUp();
    source.next({ kind: "applied", object: buildPod("a", "1") });
    source.next({ kind: "applied", object: buildPod("a", "2", { uid: "other" }) });
    expect(changes).toEqual(["+a@1", "-a", "+a@2"]);
  });

  test("finds objects by index, in order, and follows their changes", () => {
    const { cache, source } = setUp();
    const namesOn = (node: string): readonly string[] =>
      cache.listBy("node", node).map((pod) => pod.metadata.name);
    source.next({ kind: "applied", object: buildPod("b", "1", { node: "n1" }) });
    source.next({ kind: "applied", object: buildPod("a", "1", { node: "n1" }) });
    source.next({ kind: "applied", object: buildPod("c", "1") });
    expect(namesOn("n1")).toEqual(["a", "b"]);
    source.next({ kind: "applied", object: buildPod("a", "2", { node: "n2" }) });
    source.next({ kind: "removed", object: buildPod("b", "2") });
    expect(namesOn("n1")).toEqual([]);
    expect(namesOn("n2")).toEqual(["a"]);
    expect(() => cache.listBy("none", "x")).toThrow("there is no index none");
  });

  test("does not find a deleted object by its former index, nor a recreated one in the wrong place", () => {
    const { cache, source } = setUp();
    const namesOn = (node: string): readonly string[] =>
      cache.listBy("node", node).map((pod) => pod.metadata.name);
    source.next({ kind: "applied", object: buildPod("a", "1", { node: "n1" }) });
    source.next({ kind: "applied", object: buildPod("b", "1", { node: "n1" }) });
    source.next({ kind: "removed", object: buildPod("a", "2") });
    source.next({ kind: "applied", object: buildPod("a", "3", { uid: "other", node: "n2" }) });
    expect([namesOn("n1"), namesOn("n2"), namesOn("n3")]).toEqual([["b"], ["a"], []]);
  });

  test("does not subscribe when it is started with an aborted signal", () => {
    const source = new Subject<Reflection<Pod>>();
    const cache = createCache(source, { logger: createFakeLogger() });
    cache.start(AbortSignal.abort());
    expect(source.observed).toBe(false);
  });

  test("is not synced before the first list", async () => {
    const { cache, source } = setUp();
    let isSynced = false;
    const synced = cache.synced().then(() => {
      isSynced = true;
    });
    source.next({ kind: "applied", object: buildPod("a", "1") });
    await settle();
    expect(isSynced).toBe(false);
    source.next({ kind: "listed", objects: [] });
    await synced;
  });

  test("a listener that throws does not prevent others from receiving the change", () => {
    const { cache, source, changes, logger } = setUp();
    const fault = new Error("fault");
    cache.onChange(() => {
      throw fault;
    });
    const later: string[] = [];
    cache.onChange((change) => later.push(describeChange(change)));
    source.next({ kind: "applied", object: buildPod("a", "1") });
    expect(changes).toEqual(["+a@1"]);
    expect(later).toEqual(["+a@1"]);
    expect(logger.lines).toMatchObject([
      { level: "error", fields: { reason: "fault", err: fault } },
    ]);
  });

  test("receives nothing after the abort; a removed listener receives nothing", () => {
    const { cache, source, changes, abort } = setUp();
    const observed: string[] = [];
    const stop = cache.onChange((change) => observed.push(describeChange(change)));
    stop();
    source.next({ kind: "applied", object: buildPod("a", "1") });
    abort.abort();
    source.next({ kind: "applied", object: buildPod("b", "1") });
    expect(changes).toEqual(["+a@1"]);
    expect(observed).toEqual([]);
  });
});

describe("a specification", () => {
  function withGeneration(resourceVersion: string, generation: number | undefined): Pod {
    const pod = buildPod("a", resourceVersion);
    const metadata = { ...pod.metadata, ...(generation !== undefined && { generation }) };
    return { ...pod, metadata };
  }

  test.each([
    { name: "of the same generation is the same object", before: 1, after: 1, isKept: true },
    { name: "of another generation is a different object", before: 1, after: 2, isKept: false },
    {
      name: "without a generation is another object",
      before: undefined,
      after: undefined,
      isKept: false,
    },
  ])("$name", ({ before, after, isKept: isReused }) => {
    const { cache, source } = setUp();
    const [first, second] = [withGeneration("1", before), withGeneration("2", after)];
    source.next({ kind: "listed", objects: [first] });
    source.next({ kind: "applied", object: second });
    const found = cache.find({ namespace: "ns", name: "a" });
    expect(found).toEqual(second);
    expect(found?.spec === first.spec).toBe(isReused);
  });
});

describe("objects that users need", () => {
  const [A, B] = ["a", "b"].map((name) => ({ namespace: "ns", name })) as [ObjectKey, ObjectKey];

  function watchObjects() {
    const sources = new Map<string, Subject<Reflection<KubeObject>>>();
    const stop = new AbortController();
    const clock = createFakeClock();
    const logger = createFakeLogger();
    const stored = new Map<string, Pod>();
    const reads: string[] = [];
    const refusals: Error[] = [];
    const delays: number[] = [];
    const openCache = (namespace: string): StartableCache<KubeObject> => {
      const source = new Subject<Reflection<KubeObject>>();
      sources.set(namespace, source);
      return createCache(source, { logger });
    };
    const readObject = async ({ name }: ObjectKey): Promise<Pod | undefined> => {
      reads.push(name);
      await settle();
      const delayMs = delays.shift();
      if (delayMs !== undefined) await clock.sleep(delayMs, stop.signal);
      const refusal = refusals.shift();
      if (refusal !== undefined) throw refusal;
      return stored.get(name);
    };
    const source = { openCache, readObject, clock, logger };
    const watches = new ObjectWatches<Pod>(source, stop.signal);
    const calls: string[] = [];
    watches.onSynced((user) => calls.push(`synced ${user}`));
    const stopListening = watches.onChange((user) => calls.push(`changed ${user}`));
    const emit = async (reflection: Reflection<Pod>): Promise<void> => {
      if (reflection.kind === "applied")
        stored.set(reflection.object.metadata.name, reflection.object);
      if (reflection.kind === "removed") stored.delete(reflection.object.metadata.name);
      if (reflection.kind === "listed")
        for (const object of reflection.objects) stored.set(object.metadata.name, object);
      sources.get("ns")?.next(reflection);
      for (let round = 0; round < 8; round += 1) await settle();
    };
    const listOpen = (): readonly string[] =>
      [...sources].flatMap(([namespace, source]) => (source.observed ? [namespace] : []));
    const results = { calls, reads, refusals, delays, clock, logger };
    return { watches, emit, listOpen, stop, stopListening, ...results };
  }

  const names = (objects: readonly Pod[] | undefined) =>
    objects?.map(({ metadata }) => metadata.name);

  test("have one watch for each namespace while a user needs one of them", () => {
    const { watches, listOpen, stop } = watchObjects();
    watches.setUsed("1", [A, B, { namespace: "other", name: "a" }]);
    watches.setUsed("2", [A]);
    expect(listOpen()).toEqual(["ns", "other"]);
    watches.setUsed("1", []);
    expect(listOpen()).toEqual(["ns"]);
    watches.setUsed("2", [B]);
    expect(listOpen()).toEqual(["ns"]);
    expect(watches.waitUntilKnown(A)).toBeUndefined();
    watches.setUsed("2", []);
    expect(listOpen()).toEqual([]);
    watches.setUsed("2", [B]);
    expect(listOpen()).toEqual(["ns"]);
    stop.abort();
    expect(listOpen()).toEqual([]);
  });

  test("are read if they exist, and known when each of them has been read", async () => {
    const { watches, emit, calls, reads } = watchObjects();
    expect(watches.list("1")).toEqual([]);
    watches.setUsed("1", [A, B]);
    watches.setUsed("2", [A]);
    expect(watches.list("1")).toBeUndefined();
    await emit({ kind: "listed", objects: [buildPod("a", "1"), buildPod("unused", "1")] });
    await watches.waitUntilKnown(A);
    expect([names(watches.list("1")), names(watches.list("2"))]).toEqual([["a"], ["a"]]);
    expect(calls.toSorted()).toEqual([
      "changed 1",
      "changed 2",
      "synced 1",
      "synced 1",
      "synced 2",
    ]);
    expect([watches.find(A)?.metadata.name, watches.find(B)]).toEqual(["a", undefined]);
    expect(reads).toEqual(["a"]);
  });

  test("are read again after each change, and reported to their users only", async () => {
    const { watches, emit, calls, reads, stopListening } = watchObjects();
    watches.setUsed("1", [A]);
    watches.setUsed("2", [B]);
    await emit({ kind: "listed", objects: [] });
    calls.length = 0;
    await emit({ kind: "applied", object: buildPod("a", "2") });
    await emit({ kind: "applied", object: buildPod("unused", "3") });
    expect([calls, reads]).toEqual([["changed 1"], ["a"]]);
    await emit({ kind: "applied", object: buildPod("a", "4") });
    expect(watches.find(A)?.metadata.resourceVersion).toBe("4");
    await emit({ kind: "removed", object: buildPod("a", "5") });
    expect([watches.find(A), watches.list("1")]).toEqual([undefined, []]);
    expect([calls, reads]).toEqual([
      ["changed 1", "changed 1", "changed 1"],
      ["a", "a"],
    ]);
    stopListening();
    await emit({ kind: "applied", object: buildPod("b", "6") });
    expect([calls.length, names(watches.list("2"))]).toEqual([3, ["b"]]);
  });

  test("that exist when a user begins to need them are read then", async () => {
    const { watches, emit, reads } = watchObjects();
    watches.setUsed("1", [A]);
    await emit({ kind: "listed", objects: [buildPod("a", "1"), buildPod("b", "1")] });
    watches.setUsed("2", [B]);
    await watches.waitUntilKnown(B);
    expect([names(watches.list("2")), reads]).toEqual([["b"], ["a", "b"]]);
  });

  test("are read again after a failure", async () => {
    const { watches, emit, refusals, clock, logger, reads } = watchObjects();
    refusals.push(new Error("connection lost"));
    watches.setUsed("1", [A]);
    await emit({ kind: "listed", objects: [buildPod("a", "1")] });
    expect(watches.list("1")).toBeUndefined();
    expect(logger.lines).toHaveLength(1);
    await clock.advance(2000);
    await watches.waitUntilKnown(A);
    expect([names(watches.list("1")), reads]).toEqual([["a"], ["a", "a"]]);
  });

  test("that change in a loop are read in a fifth of the time", async () => {
    const { watches, emit, clock, delays, reads } = watchObjects();
    watches.setUsed("1", [A]);
    await emit({ kind: "listed", objects: [buildPod("a", "1")] });
    delays.push(...Array.from({ length: 20 }, () => 100));
    const advance = async (ms: number): Promise<void> => {
      await clock.advance(ms);
      for (let round = 0; round < 8; round += 1) await settle();
    };
    for (let version = 2; version <= 101; version += 1) {
      await emit({ kind: "applied", object: buildPod("a", String(version)) });
      await advance(20);
    }
    expect(reads.length).toBeLessThanOrEqual(6);
    for (let step = 0; step < 10; step += 1) await advance(100);
    expect(watches.find(A)?.metadata.resourceVersion).toBe("101");
  });

  test("are read one at a time in a namespace", async () => {
    const { watches, emit, reads } = watchObjects();
    watches.setUsed("1", [A, B]);
    const listed = emit({ kind: "listed", objects: [buildPod("a", "1"), buildPod("b", "1")] });
    await settle();
    expect(reads).toEqual(["a"]);
    await listed;
    await watches.waitUntilKnown(B);
    expect(reads).toEqual(["a", "b"]);
  });
});
