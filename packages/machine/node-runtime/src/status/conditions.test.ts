// SPDX-License-Identifier: Apache-2.0
import type { Condition, ContainerStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { conditionsOf, hasForeignCondition, type ConditionFacts } from "./conditions.ts";

const NOW = "2026-11-28T10:00:00Z";
const EARLIER = "2026-11-28T09:00:00Z";

function container(name: string, ready: boolean): ContainerStatus {
  const identity = { name, image: "i", imageID: "i" };
  return { ...identity, ready, started: ready, restartCount: 0, state: {} };
}

function conditions(change: Partial<ConditionFacts> = {}): readonly Condition[] {
  return conditionsOf({
    before: [],
    isOver: false,
    hasFailed: false,
    isInitialized: true,
    containers: [container("a", true)],
    now: NOW,
    ...change,
  });
}

function find(all: readonly Condition[], type: string): Condition | undefined {
  return all.find((one) => one.type === type);
}

const since = (time: string) => ({ lastTransitionTime: time });
const UNINITIALIZED = {
  type: "Initialized",
  status: "False",
  ...since(NOW),
  reason: "ContainersNotInitialized",
  message: "not all init containers have succeeded",
};

test("a pod whose containers are all ready meets every condition", () => {
  expect(conditions()).toEqual(
    ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
      type,
      status: "True",
      ...since(NOW),
    })),
  );
});

describe("Ready and ContainersReady", () => {
  test.each([
    {
      name: "name the containers that are not ready",
      given: { containers: ["a", "b", "c"].map((name) => container(name, name === "b")) },
      want: {
        reason: "ContainersNotReady",
        message: "containers with unready status: [a c]",
      },
    },
    {
      name: "are false after success",
      given: { isOver: true },
      want: { reason: "PodCompleted" },
    },
    {
      name: "are false after a failure",
      given: { isOver: true, hasFailed: true, containers: [container("a", false)] },
      want: { reason: "PodFailed" },
    },
  ])("$name", ({ given, want }) => {
    for (const type of ["Ready", "ContainersReady"]) {
      expect(find(conditions(given), type)).toEqual({
        type,
        status: "False",
        ...since(NOW),
        ...want,
      });
    }
  });
});

describe("Initialized", () => {
  const met = { type: "Initialized", status: "True", ...since(NOW) };
  test.each([
    { name: "init containers are left", given: { isInitialized: false }, want: UNINITIALIZED },
    {
      name: "the pod succeeded",
      given: { isInitialized: false, isOver: true },
      want: met,
    },
    {
      name: "the pod failed before",
      given: { isInitialized: false, isOver: true, hasFailed: true },
      want: UNINITIALIZED,
    },
    {
      name: "the pod failed afterwards",
      given: { isInitialized: true, isOver: true, hasFailed: true },
      want: met,
    },
  ])("$name", ({ given, want }) => {
    expect(find(conditions(given), "Initialized")).toEqual(want);
  });
});

describe("the time of the last transition", () => {
  test.each<{
    name: string;
    given: Pick<Condition, "status" | "lastTransitionTime">;
    want: string;
  }>([
    {
      name: "stays while the status does",
      given: { status: "True", ...since(EARLIER) },
      want: EARLIER,
    },
    {
      name: "is now when the status changes",
      given: { status: "False", ...since(EARLIER) },
      want: NOW,
    },
    {
      name: "is now when it was never written",
      given: { status: "True" },
      want: NOW,
    },
  ])("$name", ({ given, want }) => {
    const other: Condition = { type: "Ready", status: "False", ...since("other") };
    const before: Condition = { type: "Initialized", ...given };
    expect(find(conditions({ before: [other, before] }), "Initialized")).toMatchObject(since(want));
  });
});

test("conditions stay in their order, and those of other owners stay as they are", () => {
  const foreign: Condition = { type: "example.com/Gate", status: "False", reason: "Closed" };
  const before: readonly Condition[] = [foreign, { type: "Ready", status: "True" }];
  const found = conditions({ before });
  expect(found[0]).toBe(foreign);
  expect(found.map(({ type }) => type)).toEqual([
    "example.com/Gate",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodScheduled",
  ]);
});

test.each([
  { name: "none", types: [], want: false },
  { name: "the node's own", types: ["Initialized", "Ready", "PodScheduled"], want: false },
  { name: "one of another owner", types: ["Ready", "example.com/Gate"], want: true },
])("conditions of other owners among $name: $want", ({ types, want }) => {
  expect(hasForeignCondition(types.map((type) => ({ type, status: "True" })))).toBe(want);
});
