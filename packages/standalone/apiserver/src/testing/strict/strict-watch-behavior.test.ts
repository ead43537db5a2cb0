// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { NODE } from "../../kinds/cluster/node.ts";
import { POD } from "../../kinds/workload/pod.ts";
import { DEFAULT_WATCH_BEHAVIOR } from "../../verbs/watch/watch-behavior.ts";
import { makeStrictWatchBehavior } from "./strict-watch-behavior.ts";

const request = {
  kind: POD,
  namespace: "",
  query: new URLSearchParams(),
  user: "u",
  revision: 7,
};

test("a strict server expires revisions from before its start, once for each watch", () => {
  const behavior = makeStrictWatchBehavior(7, () => 0.5);
  expect(behavior.mustRelist({ ...request, revision: 8 })).toBe(false);
  expect(behavior.mustRelist({ ...request, revision: 0 })).toBe(false);
  expect(behavior.mustRelist(request)).toBe(true);
  expect(behavior.mustRelist(request)).toBe(false);
  const query = new URLSearchParams({ labelSelector: "a=b" });
  expect(behavior.mustRelist({ ...request, query })).toBe(true);
  const field = new URLSearchParams({ fieldSelector: "a=b" });
  expect(behavior.mustRelist({ ...request, query: field })).toBe(true);
  expect(behavior.mustRelist({ ...request, user: "v" })).toBe(true);
  expect(behavior.mustRelist({ ...request, namespace: "ns" })).toBe(true);
  expect(behavior.mustRelist({ ...request, kind: NODE })).toBe(true);
  expect(behavior.mustRelist({ ...request, kind: NODE, revision: 1 })).toBe(false);
});

test("a strict server remembers a limited number of watches", () => {
  const behavior = makeStrictWatchBehavior(7, () => 0.5);
  const forgotten = Array.from({ length: 10_001 }, (_, index) =>
    behavior.mustRelist({ ...request, user: String(index) }),
  );
  expect([forgotten.indexOf(false), forgotten.length]).toEqual([10_000, 10_001]);
});

test("a lenient server expires no revision and sends bookmarks also when idle", () => {
  expect(DEFAULT_WATCH_BEHAVIOR.mustRelist(request)).toBe(false);
  expect(DEFAULT_WATCH_BEHAVIOR.sendsIdleBookmarks).toBe(true);
  expect(makeStrictWatchBehavior(7, () => 0.5).sendsIdleBookmarks).toBe(false);
});

test("a strict server ends watches after seconds, a lenient server at their timeout", () => {
  expect(makeStrictWatchBehavior(1, () => 0.5).limitTimeoutMs(600_000)).toBe(7500);
  expect(makeStrictWatchBehavior(1, () => 0.5).limitTimeoutMs(3000)).toBe(3000);
  expect(DEFAULT_WATCH_BEHAVIOR.limitTimeoutMs(600_000)).toBe(600_000);
});
