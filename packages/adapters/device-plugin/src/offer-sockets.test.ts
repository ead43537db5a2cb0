// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { planSweep } from "./offer-sockets.ts";

test.each([
  { name: "nothing", there: [], inUse: [], suspects: [], gone: [], next: [] },
  { name: "a pod's", there: ["a"], inUse: ["a"], suspects: ["a"], gone: [], next: [] },
  { name: "one that is free", there: ["a"], inUse: ["b"], suspects: [], gone: [], next: ["a"] },
  { name: "free once more", there: ["a"], inUse: [], suspects: ["a"], gone: ["a"], next: [] },
  { name: "gone by itself", there: [], inUse: [], suspects: ["a"], gone: [], next: [] },
  {
    name: "each for itself",
    there: ["a", "b", "c"],
    inUse: ["b"],
    suspects: ["a"],
    gone: ["a"],
    next: ["c"],
  },
])("$name", ({ there, inUse, suspects, gone, next }) => {
  const facts = { existing: there, inUse: new Set(inUse), suspects: new Set(suspects) };
  expect(planSweep(facts)).toEqual({ unused: gone, suspects: next });
});
