// SPDX-License-Identifier: Apache-2.0
// The whole table: strategy, request, and what has become of the guest.
import type { RunStrategy, StateChangeRequest } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { decideRun, findRecordedStrategy, type RunFacts } from "./run-strategy.ts";

const UID = "this-vmi";
const START: StateChangeRequest = { action: "Start" };
const STOP: StateChangeRequest = { action: "Stop", uid: UID };
const STOP_OTHER: StateChangeRequest = { action: "Stop", uid: "earlier-vmi" };

const REQUESTS = {
  "-": [],
  start: [START],
  stop: [STOP],
  "stop of an earlier one": [STOP_OTHER],
  restart: [STOP, START],
} as const satisfies Record<string, readonly StateChangeRequest[]>;

type Verb = keyof typeof REQUESTS;

const GUESTS = ["none", "alive", "succeeded", "failed", "leaving"] as const;

/** Step, and what is left of the requests. */
type Cell = readonly [step: string, left: Verb | "anew"];

/** Rows by request, columns by {@link GUESTS}. The strategy has been in force before. */
const TABLE: Readonly<Record<RunStrategy, Readonly<Record<Verb, readonly Cell[]>>>> = {
  Always: {
    "-": [
      ["start", "-"],
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    start: [
      ["start", "start"],
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "start"],
    ],
    stop: [
      ["start", "-"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["keep", "stop"],
    ],
    "stop of an earlier one": [
      ["start", "-"],
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    restart: [
      ["start", "start"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["keep", "restart"],
    ],
  },
  Halted: {
    "-": [
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    start: [
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    stop: [
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    "stop of an earlier one": [
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
    restart: [
      ["keep", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["stop", "-"],
      ["keep", "-"],
    ],
  },
  Manual: {
    "-": [
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
    ],
    start: [
      ["start", "start"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "start"],
    ],
    stop: [
      ["keep", "-"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["keep", "stop"],
    ],
    "stop of an earlier one": [
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
    ],
    restart: [
      ["start", "start"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["keep", "restart"],
    ],
  },
  RerunOnFailure: {
    "-": [
      ["keep", "-"],
      ["keep", "-"],
      ["stop", "-"],
      ["keep", "anew"],
      ["keep", "-"],
    ],
    start: [
      ["start", "start"],
      ["keep", "-"],
      ["stop", "-"],
      ["keep", "anew"],
      ["keep", "start"],
    ],
    stop: [
      ["keep", "-"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["stop", "stop"],
      ["keep", "stop"],
    ],
    "stop of an earlier one": [
      ["keep", "-"],
      ["keep", "-"],
      ["stop", "-"],
      ["keep", "anew"],
      ["keep", "-"],
    ],
    restart: [
      ["start", "start"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["stop", "restart"],
      ["keep", "restart"],
    ],
  },
  Once: {
    "-": [
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
    ],
    start: [
      ["start", "start"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "start"],
    ],
    stop: [
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
    ],
    "stop of an earlier one": [
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
    ],
    restart: [
      ["start", "start"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "-"],
      ["keep", "start"],
    ],
  },
};

function factsOf(more: Partial<RunFacts> & Pick<RunFacts, "strategy" | "guest">): RunFacts {
  const uid = more.guest === "none" ? undefined : UID;
  return { lastStrategy: more.strategy, requests: [], uid, ...more };
}

// The table has a part for each strategy, and no other.
const STRATEGIES = Object.keys(TABLE) as readonly RunStrategy[];

const ROWS = STRATEGIES.flatMap((strategy) =>
  Object.entries(TABLE[strategy]).flatMap(([verb, cells]) =>
    GUESTS.map((guest, index) => {
      const [step, left] = cells[index] ?? ["missing", "-"];
      const wanted = left === "anew" ? "restart" : left;
      // The keys of a row are those of REQUESTS.
      return { strategy, guest, word: verb, requests: REQUESTS[verb as Verb], step, left: wanted };
    }),
  ),
);

test.each(ROWS)(
  "$strategy, guest $guest, request $word: $step, left: $left",
  ({ strategy, guest, requests, step, left }) => {
    expect(decideRun(factsOf({ strategy, guest, requests }))).toEqual({
      step,
      requests: REQUESTS[left],
    });
  },
);

describe("a changed strategy", () => {
  test.each([
    { strategy: "Always", before: "Halted", step: "start" },
    { strategy: "RerunOnFailure", before: undefined, step: "start" },
    { strategy: "RerunOnFailure", before: "Halted", step: "start" },
    { strategy: "Once", before: "Manual", step: "start" },
    { strategy: "Manual", before: "Always", step: "keep" },
    { strategy: "Halted", before: "Always", step: "keep" },
  ] as const)("$strategy after $before, no guest: $step", ({ strategy, before, step }) => {
    const facts = factsOf({ strategy, guest: "none", lastStrategy: before });
    expect(decideRun(facts).step).toBe(step);
  });

  test("is recorded after the VMI exists, so that a failed start is retried", () => {
    const facts = { strategy: "Once", lastStrategy: "Halted" } as const;
    expect(findRecordedStrategy(factsOf({ ...facts, guest: "none" }))).toBe("Halted");
    expect(findRecordedStrategy(factsOf({ ...facts, guest: "alive" }))).toBe("Once");
  });
});

/** What a user and the guest do one after another under one strategy: whether a guest runs in the end. */
function play(strategy: RunStrategy, steps: readonly string[]): boolean {
  let facts = factsOf({ strategy, guest: "none", lastStrategy: undefined });
  const settle = (): void => {
    for (let round = 0; round < 8; round += 1) {
      const { step, requests } = decideRun(facts);
      facts = { ...facts, requests, lastStrategy: findRecordedStrategy(facts) };
      if (step === "start") facts = { ...facts, guest: "alive", uid: `${facts.uid ?? ""}+` };
      else if (step === "stop" || facts.guest === "leaving") facts = { ...facts, guest: "none" };
    }
  };
  settle();
  for (const step of steps) {
    const { guest, uid = "" } = facts;
    const stop = { action: "Stop", uid } as const;
    const ended = guest === "succeeded" || guest === "failed";
    if (step === "start") facts = { ...facts, requests: ended ? [stop, START] : [START] };
    if (step === "stop") facts = { ...facts, requests: [stop] };
    if (step === "kubectl delete vmi") facts = { ...facts, guest: "leaving" };
    if (step === "power off") facts = { ...facts, guest: "succeeded" };
    if (step === "crash") facts = { ...facts, guest: "failed" };
    settle();
  }
  return facts.guest === "alive";
}

describe("a sequence of events", () => {
  test.each([
    { strategy: "RerunOnFailure", steps: ["stop"], runs: false },
    { strategy: "RerunOnFailure", steps: ["stop", "start"], runs: true },
    { strategy: "RerunOnFailure", steps: ["crash"], runs: true },
    { strategy: "RerunOnFailure", steps: ["crash", "crash", "stop"], runs: false },
    { strategy: "RerunOnFailure", steps: ["power off"], runs: false },
    { strategy: "RerunOnFailure", steps: ["power off", "start"], runs: true },
    { strategy: "Manual", steps: [], runs: false },
    { strategy: "Manual", steps: ["start", "power off"], runs: false },
    { strategy: "Manual", steps: ["start", "power off", "start"], runs: true },
    { strategy: "Manual", steps: ["start", "kubectl delete vmi"], runs: false },
    { strategy: "Manual", steps: ["start", "stop", "start"], runs: true },
    { strategy: "Once", steps: ["power off"], runs: false },
    { strategy: "Once", steps: ["kubectl delete vmi"], runs: false },
    { strategy: "Always", steps: ["power off"], runs: true },
    { strategy: "Always", steps: ["kubectl delete vmi"], runs: true },
  ] as const)("$strategy, $steps: runs $runs", ({ strategy, steps, runs }) => {
    expect(play(strategy, steps)).toBe(runs);
  });
});

test("retains the start options of a halted VM until it starts", () => {
  const requested = { action: "Start", data: { paused: "true" } } as const;
  const halted = {
    strategy: "Halted",
    lastStrategy: "Halted",
    guest: "none",
    uid: undefined,
  } as const;
  expect(decideRun({ ...halted, requests: [requested] })).toEqual({
    step: "keep",
    requests: [requested],
  });
  const always = { ...halted, strategy: "Always", requests: [requested] } as const;
  expect(decideRun(always)).toEqual({ step: "start", requests: [requested] });
  expect(decideRun({ ...always, guest: "alive", uid: "1" })).toEqual({
    step: "keep",
    requests: [],
  });
});
