// SPDX-License-Identifier: Apache-2.0
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairLine } from "./fair-line.ts";

/** Keys are GROUP/NAME. */
function lineOf(...keys: readonly string[]): FairLine {
  const line = new FairLine((key) => key.split("/")[0] ?? "");
  for (const key of keys) line.add(key);
  return line;
}

function takeAll(line: FairLine): readonly string[] {
  const taken: string[] = [];
  for (let key = line.take(); key !== undefined; key = line.take()) taken.push(key);
  return taken;
}

test("a key that is removed does not come, and its group has no turn for it", () => {
  const line = new FairLine((key) => key.slice(0, 1));
  for (const key of ["a1", "a2", "b1"]) line.add(key);
  expect([line.remove("b1"), line.remove("b1"), line.remove("a2"), line.remove("c")]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect([line.size, line.take(), line.take()]).toEqual([1, "a1", undefined]);
});

describe("a fair line", () => {
  test.each([
    { name: "nobody", keys: [], want: [] },
    { name: "one group: first come, first served", keys: ["a/2", "a/1"], want: ["a/2", "a/1"] },
    { name: "a key that waits keeps its place", keys: ["a/1", "a/2", "a/1"], want: ["a/1", "a/2"] },
    {
      name: "one of a small group does not wait for all of a large one",
      keys: ["a/1", "a/2", "a/3", "b/1", "c/1"],
      want: ["a/1", "b/1", "c/1", "a/2", "a/3"],
    },
    {
      name: "groups take turns",
      keys: ["a/1", "a/2", "a/3", "b/1", "b/2"],
      want: ["a/1", "b/1", "a/2", "b/2", "a/3"],
    },
  ])("$name", ({ keys, want }) => {
    const line = lineOf(...keys);
    expect(line.size).toBe(want.length);
    expect(takeAll(line)).toEqual(want);
    expect(line.size).toBe(0);
  });

  test("a group that comes again comes behind the others", () => {
    const line = lineOf("a/1", "b/1", "b/2");
    expect(line.take()).toBe("a/1");
    line.add("a/2");
    expect(takeAll(line)).toEqual(["b/1", "a/2", "b/2"]);
  });

  test("whoever waits is served once, after no more of another group than there are of its own before it, and one", () => {
    const key = fc.tuple(fc.constantFrom("a", "b", "c"), fc.nat(9)).map((parts) => parts.join("/"));
    fc.assert(
      fc.property(fc.array(key), (keys) => {
        const taken = takeAll(lineOf(...keys));
        expect(taken.toSorted()).toEqual([...new Set(keys)].toSorted());
        taken.forEach((one, place) => {
          const before = taken.slice(0, place);
          const ofGroup = (group: string): number =>
            before.filter((other) => other.startsWith(`${group}/`)).length;
          const own = ofGroup(one.slice(0, 1));
          for (const group of ["a", "b", "c"]) expect(ofGroup(group)).toBeLessThanOrEqual(own + 1);
        });
      }),
    );
  });
});
