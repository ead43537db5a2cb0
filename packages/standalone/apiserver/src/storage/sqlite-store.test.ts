// SPDX-License-Identifier: Apache-2.0
// Does the store keep order, isolation and history?
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { ChangeListeners, openStore } from "./sqlite-store.ts";
import type { Change, Scope, Store } from "./store.ts";

const BUCKET = "/configmaps";

let store: Store;

beforeEach(() => {
  store = openStore(":memory:", fail);
});

afterEach(async () => {
  await store.close();
});

function fail(error: unknown): never {
  throw error;
}

function at(name: string, namespace = "default") {
  return { bucket: BUCKET, namespace, name };
}

function object(name: string, value = "1"): KubeObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { value } };
}

async function put(name: string, value = "1", namespace = "default"): Promise<number> {
  const written = await store.write((transaction) =>
    transaction.put(at(name, namespace), object(name, value)),
  );
  return Number(written.metadata.resourceVersion);
}

async function remove(name: string): Promise<void> {
  await store.write((transaction) => transaction.remove(at(name), object(name)));
}

function names(scope: Parameters<Store["list"]>[0]): readonly string[] {
  return store.list(scope).map(({ address }) => `${address.namespace}/${address.name}`);
}

test("lists are sorted by namespace and name, and restricted to their scope", async () => {
  await put("b");
  await put("a");
  await put("c", "1", "another");
  await put("d", "1", "default-2");
  expect(names({ bucket: BUCKET, namespace: "default" })).toEqual(["default/a", "default/b"]);
  expect(names({ bucket: BUCKET })).toHaveLength(4);
  expect(names({ bucket: "/config" })).toEqual([]);
});

test("a mutation that throws writes nothing and does not affect others in its batch", async () => {
  const first = put("a");
  const failing = store.write((transaction) => {
    transaction.put(at("b"), object("b"));
    throw new Error("no");
  });
  const third = put("c");
  await expect(failing).rejects.toThrow("no");
  expect((await third) - (await first)).toBe(1);
  expect(store.find(at("b"))).toBeUndefined();
});

test("a mutation reads the writes of earlier ones in the batch", async () => {
  const [, seen] = await Promise.all([
    put("a", "new"),
    store.write((transaction) => transaction.find(at("a"))?.text),
  ]);
  expect(seen).toContain('"new"');
});

test("notifies subscribers before the writer returns, in the order of revisions", async () => {
  const told: Change[] = [];
  store.subscribe((changes) => told.push(...changes));
  await Promise.all([put("a"), put("b"), put("a", "2")]);
  await remove("b");
  expect(told.map(({ type, current }) => [type, current.address.name])).toEqual([
    ["ADDED", "a"],
    ["ADDED", "b"],
    ["MODIFIED", "a"],
    ["DELETED", "b"],
  ]);
  expect(told.map(({ revision }) => revision)).toEqual([2, 3, 4, 5]);
});

test("reads history: changes after a revision, states at a revision", async () => {
  const first = await put("a");
  await put("b");
  const third = await put("a", "2");
  await remove("a");
  const changes = store.changesAfter({ bucket: BUCKET }, first, 100) ?? [];
  expect(
    changes.map(({ type, current, previous }) => [type, current.address.name, previous?.revision]),
  ).toEqual([
    ["ADDED", "b", undefined],
    ["MODIFIED", "a", first],
    ["DELETED", "a", third],
  ]);
  const states = store.listAt({ bucket: BUCKET }, third) ?? [];
  expect(states.map(({ address, revision }) => [address.name, revision])).toEqual([
    ["a", third],
    ["b", first + 1],
  ]);
});

test("compacts old history, not current states", async () => {
  await put("kept");
  const rounds = Array.from({ length: 21 }, (_, round) => round);
  for (const round of rounds) {
    await Promise.all(Array.from({ length: 1000 }, () => put("busy", String(round))));
  }
  expect(store.changesAfter({ bucket: BUCKET }, 2, 100)).toBeUndefined();
  expect(store.listAt({ bucket: BUCKET }, 2)).toBeUndefined();
  const recent = store.revision() - 5;
  expect(store.changesAfter({ bucket: BUCKET }, recent, 100)).toHaveLength(5);
  expect(store.listAt({ bucket: BUCKET }, recent)?.map(({ address }) => address.name)).toEqual([
    "busy",
    "kept",
  ]);
});

test("a reopened store has its objects, and continues its revisions", async () => {
  const directory = await mkdtemp(join(tmpdir(), "store-"));
  try {
    const path = join(directory, "store.sqlite");
    const first = openStore(path, fail);
    await first.write((transaction) => transaction.put(at("a"), object("a", "kept")));
    await first.write((transaction) => transaction.put(at("b"), object("b")));
    await first.write((transaction) => transaction.remove(at("b"), object("b")));
    const last = first.revision();
    await first.close();
    const second = openStore(path, fail);
    expect(second.find(at("a"))?.view()["data"]).toEqual({ value: "kept" });
    expect(second.find(at("b"))).toBeUndefined();
    expect(second.revision()).toBe(last);
    await second.close();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("reads facts without the text, also after reopening and from an older file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "store-"));
  try {
    const path = join(directory, "store.sqlite");
    const old = new DatabaseSync(path);
    const metadata = {
      name: "a",
      uid: "u1",
      deletionTimestamp: "2026-01-01T00:00:00Z",
      ownerReferences: [{ uid: "o1" }, { uid: "o2" }],
    };
    old.exec(`CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT, deleted INTEGER, previous INTEGER, text TEXT);
      CREATE TABLE marks (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;
      INSERT INTO marks VALUES ('compacted', 3), ('last', 0)`);
    old
      .prepare("INSERT INTO log VALUES (7, ?, 0, 0, ?)")
      .run(`${BUCKET}/default/a`, JSON.stringify({ ...object("a"), metadata }));
    old.close();
    for (const opening of ["from the older file", "again"]) {
      const opened = openStore(path, fail);
      const { uid, owners, isDeleting, revision } = opened.find(at("a")) ?? {};
      expect([opening, uid, owners, isDeleting, revision]).toEqual([
        opening,
        "u1",
        ["o1", "o2"],
        true,
        7,
      ]);
      expect(opened.changesAfter({ bucket: BUCKET }, 2, 1)).toBeUndefined();
      expect(opened.revision()).toBe(7);
      await opened.close();
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("returns changes in portions", async () => {
  const first = await put("a");
  await put("b");
  await put("c");
  const [change, ...others] = store.changesAfter({ bucket: BUCKET }, first, 1) ?? [];
  expect(change?.current.address.name).toBe("b");
  expect(others).toEqual([]);
});

/** Runs with a file for a store. */
async function withFile(work: (path: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "store-"));
  try {
    await work(join(directory, "store.sqlite"));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

test("reads history from before the start from the file", async () => {
  await withFile(async (path) => {
    const first = openStore(path, fail);
    const write = (name: string, value: string) =>
      first.write((transaction) => transaction.put(at(name), object(name, value)));
    await write("a", "1");
    await write("a", "2");
    await write("b", "1");
    await first.write((transaction) => transaction.remove(at("a"), object("a", "last")));
    await first.close();
    const second = openStore(path, fail);
    const changes = second.changesAfter({ bucket: BUCKET }, 1, 100) ?? [];
    expect(
      changes.map(({ type, revision, current, previous }) => ({
        change: `${type} ${current.address.name} at ${String(revision)}`,
        current: [current.revision, current.view()["data"]],
        previous: previous && [previous.revision, previous.view()["data"]],
      })),
    ).toEqual([
      { change: "ADDED a at 2", current: [2, { value: "1" }], previous: undefined },
      {
        change: "MODIFIED a at 3",
        current: [3, { value: "2" }],
        previous: [2, { value: "1" }],
      },
      { change: "ADDED b at 4", current: [4, { value: "1" }], previous: undefined },
      {
        change: "DELETED a at 5",
        current: [5, { value: "last" }],
        previous: [3, { value: "2" }],
      },
    ]);
    expect(second.changesAfter({ bucket: BUCKET }, 1, 2)).toHaveLength(2);
    expect(second.changesAfter({ bucket: "/other" }, 1, 100)).toEqual([]);
    await second.close();
  });
});

test("rejects a file of a newer version, and a file that is not a store", async () => {
  await withFile(async (path) => {
    const newer = new DatabaseSync(path);
    newer.exec("PRAGMA user_version = 2");
    newer.close();
    expect(() => openStore(path, fail)).toThrow(
      expect.objectContaining({
        code: "FORMAT_TOO_NEW",
        details: { path, found: "2", supported: 1 },
      }),
    );
    await writeFile(path, "text ".repeat(1000));
    expect(() => openStore(path, fail)).toThrow(
      expect.objectContaining({ code: "STORE_UNUSABLE" }),
    );
  });
});

test("a failed commit fails all its writers and changes nothing", async () => {
  const told: Change[] = [];
  store.subscribe((changes) => told.push(...changes));
  const before = store.revision();
  const first = put("a");
  const second = store.write((transaction) => {
    const broken = object("b");
    // Nothing but text can be stored as a uid.
    Object.assign(broken.metadata, { uid: {} });
    transaction.put(at("b"), broken);
  });
  const failed = { code: "STORE_WRITE_FAILED" };
  await expect(first).rejects.toMatchObject(failed);
  await expect(second).rejects.toMatchObject(failed);
  expect([names({ bucket: BUCKET }), store.revision(), told]).toEqual([[], before, []]);
  expect(await put("a")).toBe(before + 1);
});

test("closing writes what is queued and rejects later writes", async () => {
  const closing = openStore(":memory:", fail);
  // More than one commit takes.
  const writes = Array.from({ length: 600 }, (_, index) =>
    closing.write((transaction) => transaction.put(at(`n${String(index)}`), object("n"))),
  );
  const closed = closing.close();
  await expect(closing.write(() => undefined)).rejects.toMatchObject({
    code: "STORE_WRITE_FAILED",
    message: expect.stringContaining("the store is closed") as string,
  });
  await closed;
  await expect(Promise.all(writes)).resolves.toHaveLength(600);
});

test("a store that cannot be opened reports the reason", () => {
  expect(() => openStore("/nowhere/store.sqlite", fail)).toThrow(
    expect.objectContaining({ code: "STORE_UNUSABLE" }),
  );
});

function change(bucket: string, namespace: string, name: string): Change {
  // Followers look at the address only.
  return {
    type: "ADDED",
    revision: 1,
    current: { address: { bucket, namespace, name } },
  } as Change;
}

const CHANGES = [
  change("/pods", "a", "x"),
  change("/pods", "a", "y"),
  change("/pods", "b", "x"),
  change("/podsets", "a", "x"),
  change("/nodes", "", "x"),
];

test.each<{ scope: Scope; want: readonly number[] }>([
  { scope: { bucket: "/pods" }, want: [0, 1, 2] },
  { scope: { bucket: "/pods", namespace: "a" }, want: [0, 1] },
  { scope: { bucket: "/pods", namespace: "a", name: "x" }, want: [0] },
  { scope: { bucket: "/nodes", namespace: "" }, want: [4] },
  { scope: { bucket: "/nodes", namespace: "", name: "x" }, want: [4] },
  { scope: { bucket: "/services" }, want: [] },
])("$scope receives $want", ({ scope, want }) => {
  const followers = new ChangeListeners(() => undefined);
  const told: Change[] = [];
  const leave = followers.follow(scope, (changes) => told.push(...changes));
  followers.notify(CHANGES);
  expect(told).toEqual(want.map((index) => CHANGES[index]));
  leave();
  followers.notify(CHANGES);
  expect(told).toHaveLength(want.length);
});

test("listeners of one scope share the changes", () => {
  const followers = new ChangeListeners(() => undefined);
  const given: (readonly Change[])[] = [];
  for (let count = 0; count < 2; count += 1) {
    followers.follow({ bucket: "/pods" }, (changes) => given.push(changes));
  }
  followers.notify(CHANGES);
  expect(given[0]).toBe(given[1]);
});

test("reports a listener that fails, and still notifies the others", () => {
  const errors: unknown[] = [];
  const followers = new ChangeListeners((error) => errors.push(error));
  const told: Change[] = [];
  followers.subscribe(() => {
    throw new Error("broken");
  });
  followers.subscribe((changes) => told.push(...changes));
  followers.notify(CHANGES);
  expect(errors).toEqual([new Error("broken")]);
  expect(told).toHaveLength(CHANGES.length);
});
