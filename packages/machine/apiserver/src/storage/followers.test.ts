// SPDX-License-Identifier: Apache-2.0
// Is everybody told what they follow, and nobody else?
import { expect, test } from "vitest";
import type { Change, Scope } from "./store.ts";
import { Followers } from "./followers.ts";

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
])("$scope is told of $want", ({ scope, want }) => {
  const followers = new Followers(() => undefined);
  const told: Change[] = [];
  const leave = followers.follow(scope, (changes) => told.push(...changes));
  followers.tell(CHANGES);
  expect(told).toEqual(want.map((index) => CHANGES[index]));
  leave();
  followers.tell(CHANGES);
  expect(told).toHaveLength(want.length);
});

test("those of one scope share what they are given", () => {
  const followers = new Followers(() => undefined);
  const given: (readonly Change[])[] = [];
  for (let count = 0; count < 2; count += 1) {
    followers.follow({ bucket: "/pods" }, (changes) => given.push(changes));
  }
  followers.tell(CHANGES);
  expect(given[0]).toBe(given[1]);
});

test("a listener that fails is reported and keeps nothing from the others", () => {
  const errors: unknown[] = [];
  const followers = new Followers((error) => errors.push(error));
  const told: Change[] = [];
  followers.subscribe(() => {
    throw new Error("broken");
  });
  followers.subscribe((changes) => told.push(...changes));
  followers.tell(CHANGES);
  expect(errors).toEqual([new Error("broken")]);
  expect(told).toHaveLength(CHANGES.length);
});
