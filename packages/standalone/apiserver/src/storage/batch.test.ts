// SPDX-License-Identifier: Apache-2.0
// Mutations of one commit, changes in memory, and backups.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { backupLines, restoreStore } from "./backup.ts";
import { Batch } from "./batch.ts";
import { ObjectIndex } from "./object-index.ts";
import { RecentChanges, openStore } from "./sqlite-store.ts";
import { type Change, OBJECT_MAX_LENGTH, ObjectTooLong } from "./store.ts";
import { TextCache, TextObject, extractStoredMetadata } from "./text-object.ts";

const BUCKET = "/configmaps";

function at(name: string, namespace = "n", bucket = BUCKET) {
  return { bucket, namespace, name };
}

/** An object whose text has this length at least, and about 150 characters more at most. */
function object(name: string, length = 0): KubeObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: "x".repeat(length) };
}

const cache = new TextCache({ readText: () => "{}" }, 2 ** 30);

/** A batch over an index that has these objects, at revisions from 1 on. */
function batchOver(...stored: readonly KubeObject[]): Batch {
  const index = new ObjectIndex();
  for (const [place, one] of stored.entries()) {
    const own = {
      address: at(one.metadata.name),
      revision: place + 1,
      metadata: extractStoredMetadata(one),
    };
    index.set(new TextObject(own, cache, JSON.stringify(one)));
  }
  return new Batch(index, cache, stored.length);
}

const namesIn = (batch: Batch) =>
  batch
    .list(BUCKET)
    .map(({ address }) => address.name)
    .sort();

test("a mutation reads stored objects, earlier mutations, and its own writes", () => {
  const batch = batchOver(object("a"), object("b"));
  batch.put(at("c"), object("c"));
  batch.remove(at("a"), object("a"));
  batch.accept();
  batch.put(at("d"), object("d"));
  batch.remove(at("b"), object("b"));
  batch.put(at("x", "n", "/secrets"), object("x"));
  expect(namesIn(batch)).toEqual(["c", "d"]);
  expect(["a", "b", "c", "d"].map((name) => batch.find(at(name))?.address.name)).toEqual([
    undefined,
    undefined,
    "c",
    "d",
  ]);
  batch.rollBack();
  expect(namesIn(batch)).toEqual(["b", "c"]);
  expect(batch.find(at("b"))?.revision).toBe(2);
});

test("revisions increase, and those of a rolled-back mutation are reused", () => {
  const batch = batchOver(object("a"));
  const first = batch.put(at("a"), object("a"));
  batch.accept();
  batch.put(at("b"), object("b"));
  batch.put(at("c"), object("c"));
  batch.rollBack();
  const last = batch.put(at("b"), object("b"));
  batch.put(at("b"), object("b"));
  batch.accept();
  expect([first, last].map(({ metadata }) => metadata.resourceVersion)).toEqual(["2", "3"]);
  expect(
    batch.changes.map(({ type, revision, previous }) => [type, revision, previous?.revision]),
  ).toEqual([
    ["MODIFIED", 2, 1],
    ["ADDED", 3, undefined],
    ["MODIFIED", 4, 3],
  ]);
});

test.each([
  { name: "a new object", length: 0, of: "b", remove: false, want: true },
  { name: "a status more", length: 4000, of: "a", remove: false, want: false },
  { name: "a much larger object", length: 4200, of: "a", remove: false, want: true },
  { name: "a deletion", length: 9000, of: "a", remove: true, want: false },
])("counts $name as growth on a full disk: $want", ({ length, of, remove, want }) => {
  const batch = batchOver(object("a"));
  if (remove) {
    batch.remove(at(of), object(of, length));
  } else {
    batch.put(at(of), object(of, length));
  }
  expect(batch.isGrowing).toBe(want);
  batch.accept();
  expect(batch.isGrowing).toBe(false);
});

test.each([
  { name: "249 changes", count: 249, length: 0, want: false },
  { name: "250 changes", count: 250, length: 0, want: true },
  { name: "less than 1 MiB", count: 1, length: 1024 * 1024 - 500, want: false },
  { name: "1 MiB", count: 1, length: 1024 * 1024, want: true },
])("a batch of $name is full: $want", ({ count, length, want }) => {
  const batch = batchOver();
  for (let index = 0; index < count; index += 1) {
    batch.put(at(String(index)), object(String(index), length));
  }
  batch.accept();
  expect(batch.isFull).toBe(want);
});

test("rejects an object that is too long unless it already was", () => {
  const long = object("a", OBJECT_MAX_LENGTH);
  expect(() => batchOver().put(at("a"), object("a", OBJECT_MAX_LENGTH))).toThrow(ObjectTooLong);
  expect(() => batchOver(object("a")).put(at("a"), { ...long })).toThrow(ObjectTooLong);
  const marked = { ...long, metadata: { ...long.metadata, finalizers: ["x".repeat(500)] } };
  expect(batchOver(long).put(at("a"), marked)).toBe(marked);
  const longer = { ...long, more: "x".repeat(2000) };
  expect(() => batchOver(long).put(at("a"), longer)).toThrow(ObjectTooLong);
});

function change(revision: number, length = 10, address = at("a")): Change {
  const own = { address, revision, metadata: extractStoredMetadata(object(address.name)) };
  const current = new TextObject(own, cache, "x".repeat(length));
  return { type: "ADDED", revision, current, previous: undefined };
}

const scope = { bucket: BUCKET };
const most = { limit: 100, length: 1000 };
const revisionsOf = (changes: readonly Change[] | undefined) =>
  changes?.map(({ revision }) => revision);

test("finds recent changes by scope and revision, in portions", () => {
  const recent = new RecentChanges(5);
  recent.add([change(6), change(7, 10, at("b")), change(8, 10, at("a", "m")), change(9)]);
  const found = (...given: Parameters<RecentChanges["findAfter"]>) =>
    revisionsOf(recent.findAfter(...given));
  expect(found(scope, 4, most)).toBeUndefined();
  expect(found(scope, 5, most)).toEqual([6, 7, 8, 9]);
  expect(found(scope, 7, most)).toEqual([8, 9]);
  expect(found({ ...scope, namespace: "n" }, 5, most)).toEqual([6, 7, 9]);
  expect(found({ ...scope, namespace: "n", name: "b" }, 5, most)).toEqual([7]);
  expect(found({ bucket: "/config" }, 5, most)).toEqual([]);
  expect(found(scope, 5, { limit: 2, length: 1000 })).toEqual([6, 7]);
  expect(found(scope, 5, { limit: 100, length: 10 })).toEqual([6, 7]);
  expect(found(scope, 5, { limit: 100, length: 9 })).toEqual([6]);
});

test("retains the last thousand of many changes", () => {
  const recent = new RecentChanges(0);
  recent.add(Array.from({ length: 1000 }, (_, index) => change(index + 1)));
  expect(recent.findAfter(scope, 0, most)).toHaveLength(100);
  recent.add([change(1001)]);
  expect(recent.findAfter(scope, 0, most)).toBeUndefined();
  expect(revisionsOf(recent.findAfter(scope, 1, { ...most, limit: 1 }))).toEqual([2]);
});

test("retains the last 2 MiB of long changes", () => {
  const recent = new RecentChanges(0);
  const half = 1024 * 1024;
  recent.add([change(1, half), change(2, half)]);
  expect(revisionsOf(recent.findAfter(scope, 0, { limit: 9, length: 2 ** 30 }))).toEqual([1, 2]);
  recent.add([change(3, 1)]);
  expect(recent.findAfter(scope, 0, most)).toBeUndefined();
  expect(revisionsOf(recent.findAfter(scope, 1, { limit: 9, length: 2 ** 30 }))).toEqual([2, 3]);
  recent.add([change(4, 3 * half)]);
  expect(recent.findAfter(scope, 3, most)).toBeUndefined();
  expect(recent.findAfter(scope, 4, most)).toEqual([]);
});

function fail(error: unknown): never {
  throw error;
}

async function backedUp(): Promise<readonly string[]> {
  const store = openStore(":memory:", fail);
  await store.write((transaction) => transaction.put(at("a"), object("a")));
  await store.write((transaction) => transaction.put(at("b", "", "x.io/bs"), object("b")));
  const lines = [...backupLines(store)];
  await store.close();
  return lines;
}

async function inDirectory(work: (path: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "backup-"));
  try {
    await work(join(directory, "store.sqlite"));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

test("a store restored from a backup has its objects, at unused revisions", async () => {
  const lines = await backedUp();
  expect(lines[0]).toBe('{"format":"patchbay-backup/1","revision":3}\n');
  expect(lines.at(-1)).toBe('{"objects":2}\n');
  await inDirectory(async (path) => {
    const first = openStore(path, fail);
    await first.write((transaction) => transaction.put(at("gone"), object("gone")));
    await first.close();
    const restored = restoreStore(path, { path: "b", text: lines.join("") });
    expect(restored).toEqual({ objects: 2, revision: 1_000_000_003 });
    const store = openStore(path, fail);
    const found = store.buckets().flatMap((bucket) => store.list({ bucket }));
    expect(found.map(({ address, revision }) => [address, revision])).toEqual([
      [at("a"), 2],
      [at("b", "", "x.io/bs"), 3],
    ]);
    expect(store.revision()).toBe(1_000_000_003);
    expect(store.changesAfter(scope, 3, 9)).toBeUndefined();
    await store.close();
  });
});

test.each([
  { name: "nothing", of: () => [], reason: /JSON/ },
  { name: "another file", of: () => ['{"format":"x"}\n'], reason: /first line is not/ },
  {
    name: "truncated",
    of: (lines: readonly string[]) => lines.slice(0, -1),
    reason: /last line is missing/,
  },
  {
    name: "missing an object",
    of: (lines: readonly string[]) => [lines[0] ?? "", ...lines.slice(2)],
    reason: /last line is missing/,
  },
  {
    name: "damaged by a line without an object",
    of: (lines: readonly string[]) => [lines[0] ?? "", "{}\n", '{"objects":1}\n'],
    reason: /no object/,
  },
])("rejects a backup that is $name, and preserves the store", async ({ of, reason }) => {
  const text = of(await backedUp()).join("");
  expect(() => restoreStore(":memory:", { path: "b", text })).toThrow(
    expect.objectContaining({
      code: "STORE_BACKUP_INVALID",
      details: { path: "b", reason: expect.stringMatching(reason) as string },
    }),
  );
});

test("rejects a backup in a newer format, and names both formats", () => {
  const text = '{"format":"patchbay-backup/2","revision":3}\n{"objects":0}\n';
  expect(() => restoreStore(":memory:", { path: "b", text })).toThrow(
    expect.objectContaining({
      code: "FORMAT_TOO_NEW",
      details: { path: "b", found: "2", supported: 1 },
    }),
  );
});
