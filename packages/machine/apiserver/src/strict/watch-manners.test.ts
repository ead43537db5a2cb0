// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { NODE } from "../kinds/cluster/node.ts";
import { POD } from "../kinds/workload/pod.ts";
import { KIND_MANNERS, strictManners } from "./watch-manners.ts";

const request = {
  kind: POD,
  namespace: "",
  query: new URLSearchParams(),
  user: "u",
  revision: 7,
};

test("a strict server forgets places from before its start, once for each watch", () => {
  const manners = strictManners(7, () => 0.5);
  expect(manners.hasForgotten({ ...request, revision: 8 })).toBe(false);
  expect(manners.hasForgotten({ ...request, revision: 0 })).toBe(false);
  expect(manners.hasForgotten(request)).toBe(true);
  expect(manners.hasForgotten(request)).toBe(false);
  const query = new URLSearchParams({ labelSelector: "a=b" });
  expect(manners.hasForgotten({ ...request, query })).toBe(true);
  const field = new URLSearchParams({ fieldSelector: "a=b" });
  expect(manners.hasForgotten({ ...request, query: field })).toBe(true);
  expect(manners.hasForgotten({ ...request, user: "v" })).toBe(true);
  expect(manners.hasForgotten({ ...request, namespace: "ns" })).toBe(true);
  expect(manners.hasForgotten({ ...request, kind: NODE })).toBe(true);
  expect(manners.hasForgotten({ ...request, kind: NODE, revision: 1 })).toBe(false);
});

test("a strict server remembers so many watches and no more", () => {
  const manners = strictManners(7, () => 0.5);
  const forgotten = Array.from({ length: 10_001 }, (_, index) =>
    manners.hasForgotten({ ...request, user: String(index) }),
  );
  expect([forgotten.indexOf(false), forgotten.length]).toEqual([10_000, 10_001]);
});

test("a kind server forgets nothing and sends bookmarks also when nothing happens", () => {
  expect(KIND_MANNERS.hasForgotten(request)).toBe(false);
  expect(KIND_MANNERS.bookmarksWhenQuiet).toBe(true);
  expect(strictManners(7, () => 0.5).bookmarksWhenQuiet).toBe(false);
});

test("a strict server ends watches after seconds, a kind one when it is asked to", () => {
  expect(strictManners(1, () => 0.5).lastingMs(600_000)).toBe(7500);
  expect(strictManners(1, () => 0.5).lastingMs(3000)).toBe(3000);
  expect(KIND_MANNERS.lastingMs(600_000)).toBe(600_000);
});
