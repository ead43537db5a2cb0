// SPDX-License-Identifier: Apache-2.0
// What probes make of a container, answer by answer.
import { describe, expect, test } from "vitest";
import {
  createProbeState,
  deriveHealth,
  isProbeDue,
  updateProbeState,
  parseProbeSettings,
  type ProbeResult,
  type ProbeKind,
  type ProbeState,
} from "./probe-state.ts";

const ANSWERS: Readonly<Record<string, ProbeResult>> = {
  s: "success",
  f: "failure",
  "?": "unknown",
};

interface Row {
  readonly name: string;
  /** As letters: `s`, `f`, `?`. */
  readonly answers: string;
  readonly isKnown?: boolean;
  readonly successThreshold?: number;
  readonly want: boolean | undefined;
}

function after({ answers, isKnown = false, successThreshold = 1 }: Omit<Row, "name" | "want">) {
  const settings = parseProbeSettings({ successThreshold, failureThreshold: 3 });
  return Array.from(answers).reduce<ProbeState>(
    (state, letter) => updateProbeState(state, ANSWERS[letter] ?? "unknown", settings),
    createProbeState(isKnown),
  );
}

test.each<Row>([
  { name: "nothing is believed before anything is said", answers: "", want: undefined },
  { name: "one success is believed", answers: "s", want: true },
  { name: "one of two is not enough", answers: "s", successThreshold: 2, want: undefined },
  { name: "two in a row are enough", answers: "ss", successThreshold: 2, want: true },
  { name: "not in a row", answers: "sfs", successThreshold: 2, want: undefined },
  { name: "two failures of three change nothing", answers: "sff", want: true },
  { name: "the third does", answers: "sfff", want: false },
  { name: "a success begins the count anew", answers: "sffsff", want: true },
  { name: "what could not be asked counts for nothing", answers: "sff?f", want: false },
  { name: "it is believed again", answers: "sfffs", want: true },
  { name: "what an earlier process believed stays", answers: "ff", isKnown: true, want: true },
  { name: "until it was said otherwise", answers: "fff", isKnown: true, want: false },
])("$name", ({ want, ...given }) => {
  expect(after(given).isSuccess).toBe(want);
});

test("settings have Kubernetes' defaults, and nothing is asked without a pause", () => {
  expect(parseProbeSettings({})).toEqual({
    initialDelayMs: 0,
    periodMs: 10_000,
    timeoutSeconds: 1,
    successThreshold: 1,
    failureThreshold: 3,
  });
  expect(
    parseProbeSettings({ periodSeconds: 0, timeoutSeconds: 0, failureThreshold: 0 }),
  ).toMatchObject({ periodMs: 1000, timeoutSeconds: 1, failureThreshold: 1 });
});

describe("a container", () => {
  const states = (given: Partial<Record<ProbeKind, boolean | undefined>>) =>
    new Map(
      Object.entries(given).map(([kind, isSuccess]) => [
        kind as ProbeKind, // its own keys
        { isSuccess, lastResult: undefined, streak: 0 },
      ]),
    );

  test.each([
    { name: "without probes is well", given: {}, want: [true, true, false] },
    {
      name: "is not ready before it was asked",
      given: { readiness: undefined },
      want: [true, false, false],
    },
    {
      name: "that is not ready is left alone",
      given: { readiness: false },
      want: [true, false, false],
    },
    {
      name: "lives before it was asked",
      given: { liveness: undefined },
      want: [true, true, false],
    },
    {
      name: "that does not live is ended",
      given: { liveness: false, readiness: true },
      want: [true, true, true],
    },
    {
      name: "has not started before it says so",
      given: { startup: undefined, readiness: true },
      want: [false, false, false],
    },
    { name: "that does not start is ended", given: { startup: false }, want: [false, false, true] },
    {
      name: "that has started is ready when it is",
      given: { startup: true, readiness: true },
      want: [true, true, false],
    },
  ])("$name", ({ given, want }) => {
    const { isStarted, isReady, isUnhealthy } = deriveHealth(states(given));
    expect([isStarted, isReady, isUnhealthy]).toEqual(want);
  });

  test.each([
    {
      name: "before the start: startup alone",
      given: { startup: undefined, liveness: undefined },
      want: ["startup"],
    },
    {
      name: "after it: the others",
      given: { startup: true, liveness: true, readiness: false },
      want: ["liveness", "readiness"],
    },
    {
      name: "no more when it is to be ended",
      given: { liveness: false, readiness: true },
      want: [],
    },
  ])("is asked $name", ({ given, want }) => {
    const all = states(given);
    expect([...all.keys()].filter((kind) => isProbeDue(kind, all))).toEqual(want);
  });
});
