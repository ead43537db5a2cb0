// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api";
import { expect, test } from "vitest";
import { createOwnWrites } from "./own-writes.ts";

function versionOf(uid: string, resourceVersion: string): KubeObject {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "p", uid, resourceVersion } };
}

test("a cache is behind until it has the last write, or a later one", () => {
  const writes = createOwnWrites();
  writes.note(versionOf("a", "99"));
  writes.note(versionOf("a", "100"));
  expect(writes.isBehind(versionOf("a", "99"))).toBe(true);
  expect(writes.isBehind(versionOf("b", "1"))).toBe(false);
  expect(writes.isBehind(versionOf("a", "101"))).toBe(false);
  expect(writes.isBehind(versionOf("a", "99"))).toBe(false); // an old event cannot bring it back
});

test("so many writes are remembered at most", () => {
  const writes = createOwnWrites();
  writes.note(versionOf("first", "5"));
  for (let i = 0; i < 10_000; i += 1) writes.note(versionOf(`uid ${String(i)}`, "5"));
  expect(writes.isBehind(versionOf("first", "1"))).toBe(false);
  expect(writes.isBehind(versionOf("uid 9999", "1"))).toBe(true);
});
