// SPDX-License-Identifier: Apache-2.0
// What the log gives back of what was appended, also after a failure and after compaction.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type KeyRange, type LogRow, RevisionLog } from "./revision-log.ts";

const ALL: KeyRange = ["/b/", "/b0"];
const MANY = { limit: 100, length: 1000 };

let log: RevisionLog;

beforeEach(() => {
  log = new RevisionLog(":memory:");
});

afterEach(() => {
  log.close();
});

function row(revision: number, key: string, change: Partial<LogRow> = {}): LogRow {
  return {
    revision,
    key,
    isDeleted: false,
    previousRevision: 0,
    metadata: { uid: "u", owners: [], isDeleting: false },
    text: `text ${String(revision)}`,
    ...change,
  };
}

/** `a` was made, changed and deleted; `c` was made in between. */
function appendLife(): void {
  log.append([row(2, "/b/a"), row(3, "/b/c", { text: "c" })]);
  log.append([row(4, "/b/a", { previousRevision: 2 })]);
  log.append([row(5, "/b/a", { previousRevision: 4, isDeleted: true })]);
}

function keysAt(revision: number): readonly string[] {
  return log.readStates(ALL, revision).map(({ key, revision: at }) => `${key}@${String(at)}`);
}

test("an empty log has no revision", () => {
  expect([log.lastRevision(), log.compactedRevision(), log.isDiskShort()]).toEqual([0, 0, false]);
});

test("changes are read with their facts and the text before", () => {
  const metadata = { uid: "u1", owners: ["o1", "o2"], isDeleting: true };
  log.append([row(2, "/b/a"), row(3, "/b/a", { previousRevision: 2, metadata })]);
  expect(log.readChanges(ALL, 1, MANY)).toEqual([
    { ...row(2, "/b/a"), previousText: undefined },
    { ...row(3, "/b/a", { previousRevision: 2, metadata }), previousText: "text 2" },
  ]);
  expect(log.readStates(ALL, 3)).toEqual([{ revision: 3, key: "/b/a", metadata }]);
  expect(log.lastRevision()).toBe(3);
});

test.each([
  { revision: 1, want: [] },
  { revision: 2, want: ["/b/a@2"] },
  { revision: 3, want: ["/b/a@2", "/b/c@3"] },
  { revision: 4, want: ["/b/a@4", "/b/c@3"] },
  { revision: 5, want: ["/b/c@3"] },
])("states at revision $revision: $want", ({ revision, want }) => {
  appendLife();
  expect(keysAt(revision)).toEqual(want);
});

test.each<{ name: string; range: KeyRange; after: number; most?: object; want: number[] }>([
  { name: "all", range: ALL, after: 0, want: [2, 3, 4, 5] },
  { name: "after a revision", range: ALL, after: 3, want: [4, 5] },
  { name: "of a key range without its end", range: ["/b/a", "/b/c"], after: 0, want: [2, 4, 5] },
  { name: "up to a limit of changes", range: ALL, after: 0, most: { limit: 2 }, want: [2, 3] },
  {
    name: "up to a limit of characters",
    range: ALL,
    after: 0,
    most: { length: 7 },
    want: [2, 3, 4],
  },
  {
    name: "that exceed the limit of characters by one",
    range: ALL,
    after: 0,
    most: { length: 6 },
    want: [2, 3],
  },
])("reads changes: $name", ({ range, after, most, want }) => {
  appendLife();
  const read = log.readChanges(range, after, { ...MANY, ...most });
  expect(read.map(({ revision }) => revision)).toEqual(want);
});

test("reads a text by its revision", () => {
  appendLife();
  expect(log.readText(4)).toBe("text 4");
  expect(() => log.readText(9)).toThrow(new RangeError("revision 9 is compacted"));
});

describe("compaction", () => {
  test("deletes superseded states and deletions up to a revision", () => {
    appendLife();
    log.append([row(6, "/b/c", { previousRevision: 3 })], [0, 5]);
    expect(log.readChanges(ALL, 0, MANY).map(({ revision }) => revision)).toEqual([3, 6]);
    expect([log.compactedRevision(), log.lastRevision()]).toEqual([5, 6]);
  });

  test("skips changes that were compacted before", () => {
    appendLife();
    log.append([row(6, "/b/c", { previousRevision: 3 })], [4, 4]);
    expect(log.readChanges(ALL, 0, MANY).map(({ revision }) => revision)).toEqual([2, 3, 4, 5, 6]);
  });
});

test("a failed append stores nothing, and the next append works", () => {
  appendLife();
  const append = () => {
    log.append([row(6, "/b/d"), row(5, "/b/e")], [0, 5]);
  };
  expect(append).toThrow(expect.objectContaining({ code: "STORE_WRITE_FAILED" }));
  expect([log.lastRevision(), log.compactedRevision(), keysAt(9)]).toEqual([5, 0, ["/b/c@3"]]);
  log.append([row(6, "/b/d")]);
  expect(log.lastRevision()).toBe(6);
});

test("replacing retains only the new states and continues after their revision", () => {
  appendLife();
  log.replace([row(1, "/b/x"), row(2, "/b/y")], 1000);
  expect(keysAt(2000)).toEqual(["/b/x@1", "/b/y@2"]);
  expect([log.lastRevision(), log.compactedRevision()]).toEqual([1000, 1000]);
});
