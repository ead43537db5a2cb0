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
  { name: "the result is unknown before the first probe", answers: "", want: undefined },
  { name: "one success suffices by default", answers: "s", want: true },
  { name: "one of two is not enough", answers: "s", successThreshold: 2, want: undefined },
  { name: "two in a row are enough", answers: "ss", successThreshold: 2, want: true },
  {
    name: "two separated successes do not meet a threshold of two",
    answers: "sfs",
    successThreshold: 2,
    want: undefined,
  },
  { name: "two failures do not meet a threshold of three", answers: "sff", want: true },
  { name: "the third does", answers: "sfff", want: false },
  { name: "a success resets the failure count", answers: "sffsff", want: true },
  { name: "a probe that could not run is not counted", answers: "sff?f", want: false },
  { name: "a success after a failure changes the result", answers: "sfffs", want: true },
  {
    name: "the result of an earlier process is retained below the threshold",
    answers: "ff",
    isKnown: true,
    want: true,
  },
  {
    name: "the result of an earlier process changes at the threshold",
    answers: "fff",
    isKnown: true,
    want: false,
  },
])("$name", ({ want, ...given }) => {
  expect(after(given).isSuccess).toBe(want);
});

test("applies Kubernetes' defaults, and at least a pause between probes", () => {
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
      name: "is not ready before the first readiness probe",
      given: { readiness: undefined },
      want: [true, false, false],
    },
    {
      name: "that is not ready is not unhealthy",
      given: { readiness: false },
      want: [true, false, false],
    },
    {
      name: "is healthy before the first liveness probe",
      given: { liveness: undefined },
      want: [true, true, false],
    },
    {
      name: "with a failed liveness probe is unhealthy",
      given: { liveness: false, readiness: true },
      want: [true, true, true],
    },
    {
      name: "is not started before the startup probe succeeds",
      given: { startup: undefined, readiness: true },
      want: [false, false, false],
    },
    {
      name: "with a failed startup probe is unhealthy",
      given: { startup: false },
      want: [false, false, true],
    },
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
      name: "for startup only before the start",
      given: { startup: undefined, liveness: undefined },
      want: ["startup"],
    },
    {
      name: "for liveness and readiness after the start",
      given: { startup: true, liveness: true, readiness: false },
      want: ["liveness", "readiness"],
    },
    {
      name: "no more when it is to be ended",
      given: { liveness: false, readiness: true },
      want: [],
    },
  ])("is probed $name", ({ given, want }) => {
    const all = states(given);
    expect([...all.keys()].filter((kind) => isProbeDue(kind, all))).toEqual(want);
  });
});
