// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeClock } from "@patchbay/os/testing";
import type { Cache } from "@patchbay/core/interfaces";
import { beforeEach, describe, expect, test } from "vitest";
import { describeCacheContract } from "../testing/contracts/cache.ts";
import { createFakeCache, type FakeCache } from "../testing/fakes/cache.ts";
import { joinCaches } from "./joined-cache.ts";

/** Longer than an object that has left the passing cache stays. */
const LONG_MS = 10_000;

describeCacheContract("joined, told by the first", (indexes) => {
  const [first, second] = [createFakeCache(indexes), createFakeCache(indexes)];
  const cache = joinCaches([first, second], createFakeClock(), new AbortController().signal);
  return {
    cache,
    put: (object) => {
      first.put(object);
    },
    take: (key) => {
      first.take(key);
    },
  };
});

const KEY = { namespace: "ns", name: "a" };

function buildObject(resourceVersion: string, uid = "uid"): KubeObject {
  return { apiVersion: "v1", kind: "Thing", metadata: { ...KEY, uid, resourceVersion } };
}

describe("an object that moves between two watches", () => {
  let lasting: FakeCache<KubeObject>;
  let passing: FakeCache<KubeObject>;
  let clock: ReturnType<typeof createFakeClock>;
  let cache: Cache<KubeObject>;
  let stop: AbortController;
  let changes: string[];

  beforeEach(() => {
    [lasting, passing] = [createFakeCache(), createFakeCache()];
    clock = createFakeClock();
    stop = new AbortController();
    cache = joinCaches([lasting, passing], clock, stop.signal);
    changes = [];
    cache.onChange((change) => {
      const object = change.kind === "deleted" ? change.previous : change.current;
      changes.push(`${change.kind} ${object.metadata.resourceVersion ?? ""}`);
    });
  });

  test("is never reported as deleted, whichever watch reports first", async () => {
    passing.put(buildObject("1"));
    passing.take(KEY);
    lasting.put(buildObject("2"));
    await clock.advance(LONG_MS);
    expect(changes).toEqual(["added 1", "updated 2"]);
    expect(cache.find(KEY)).toEqual(buildObject("2"));
  });

  test("has the newest version of both watches, reported once", () => {
    passing.put(buildObject("1"));
    lasting.put(buildObject("2"));
    passing.put(buildObject("2"));
    passing.take(KEY);
    expect(changes).toEqual(["added 1", "updated 2"]);
    expect(cache.list()).toEqual([buildObject("2")]);
  });

  test("is deleted after a delay without a second watch, and at once when the lasting watch loses it", async () => {
    passing.put(buildObject("1"));
    passing.take(KEY);
    expect(cache.find(KEY)).toEqual(buildObject("1"));
    await clock.advance(LONG_MS);
    expect(cache.find(KEY)).toBeUndefined();
    lasting.put(buildObject("2"));
    lasting.take(KEY);
    expect(changes).toEqual(["added 1", "deleted 1", "added 2", "deleted 2"]);
  });

  test("stays with the version of the watch that still has it", () => {
    lasting.put(buildObject("1"));
    passing.put(buildObject("2"));
    lasting.take(KEY);
    expect(changes).toEqual(["added 1", "updated 2"]);
  });

  test("is deleted before another object with its name is added", async () => {
    passing.put(buildObject("1"));
    passing.take(KEY);
    lasting.put(buildObject("2", "other"));
    await clock.advance(LONG_MS);
    expect(changes).toEqual(["added 1", "deleted 1", "added 2"]);
  });

  test("is not awaited after the stop", async () => {
    passing.put(buildObject("1"));
    passing.take(KEY);
    stop.abort(new Error("stopped"));
    await clock.advance(LONG_MS);
    expect(changes).toEqual(["added 1"]);
  });
});
