// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { planSweep } from "./offer-sockets.ts";

test.each([
  { name: "nothing", there: [], inUse: [], suspects: [], gone: [], next: [] },
  { name: "keeps a pod's socket", there: ["a"], inUse: ["a"], suspects: ["a"], gone: [], next: [] },
  {
    name: "suspects an unused socket",
    there: ["a"],
    inUse: ["b"],
    suspects: [],
    gone: [],
    next: ["a"],
  },
  {
    name: "deletes a socket that is unused for the second time",
    there: ["a"],
    inUse: [],
    suspects: ["a"],
    gone: ["a"],
    next: [],
  },
  {
    name: "ignores a suspect that no longer exists",
    there: [],
    inUse: [],
    suspects: ["a"],
    gone: [],
    next: [],
  },
  {
    name: "decides on each socket separately",
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
