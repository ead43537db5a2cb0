// SPDX-License-Identifier: Apache-2.0
// Are texts held as far as memory allows, and never lost?
import { expect, test } from "vitest";
import { TextCache, TextObject } from "./text-object.ts";

const FACTS = { uid: "u", owners: [], isDeleting: false };
const LENGTH = 10;

function makeCache(texts: number) {
  const read: number[] = [];
  const source = {
    readText: (revision: number) => {
      read.push(revision);
      return String(revision).padEnd(LENGTH, ".");
    },
  };
  const cache = new TextCache(source, texts * LENGTH);
  const object = (revision: number) =>
    new TextObject(
      { address: { bucket: "/b", namespace: "n", name: "o" }, revision, metadata: FACTS },
      cache,
    );
  return { cache, read, object };
}

test("parses a text once while the cache has space", () => {
  const { read, object } = makeCache(2);
  const one = object(1);
  expect([one.text, one.text]).toEqual(["1.........", "1........."]);
  expect(read).toEqual([1]);
});

test("evicts the least recently used object, and parses it again", () => {
  const { read, object } = makeCache(2);
  const [one, two, three] = [object(1), object(2), object(3)];
  expect(one.text + two.text + three.text).toContain("3");
  expect([one, two, three].map(({ cachedLength: heldLength }) => heldLength)).toEqual([
    0,
    LENGTH,
    LENGTH,
  ]);
  expect(one.text).toContain("1");
  expect(read).toEqual([1, 2, 3, 1]);
});

test("an object that is no longer current retains its text", () => {
  const { cache, read, object } = makeCache(1);
  const old = object(1);
  cache.release(old);
  expect(object(2).text + object(3).text).toContain("3");
  expect(old.text).toContain("1");
  expect(read).toEqual([1, 2, 3]);
});

test("returns a text that is longer than the cache", () => {
  const { object } = makeCache(0);
  expect(object(1).text).toContain("1");
});
