// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import type { LivePodFacts, PodFacts } from "./facts.ts";
import {
  findExit,
  findFinalPhase,
  findNextInitContainer,
  findPhase,
  shouldRestart,
  toMilliseconds,
  parseRestartDelay,
  computeRestartWaitMs,
} from "./progress.ts";

const INIT = aContainer({ name: "init" });
const WITH_INIT = aPod({ initContainers: [INIT, aContainer({ name: "second" })] });
const DONE = { state: "EXITED", exitCode: 0 } as const;
const OLD = { ...DONE, sandboxId: "before" };

/** Facts of a pod whose object is there. */
function live(pod: Pod, change: Partial<PodFacts> = {}): LivePodFacts {
  return { ...podFacts({ sandboxes: [aSandbox()], ...change, pod }), pod };
}

function aStatus(name: string, state: object, containerID = "fake://c0") {
  return { name, image: "i", imageID: "i", ready: false, restartCount: 0, containerID, state };
}

describe("the end of a container", () => {
  test.each<{ name: string; pod?: Pod; containers?: PodFacts["containers"]; want: unknown }>([
    { name: "is unset before the container is created", want: undefined },
    { name: "is unset while the container runs", containers: [aRun()], want: undefined },
    {
      name: "is the runtime's exit code",
      containers: [aRun({ state: "EXITED", exitCode: 3 })],
      want: { exitCode: 3 },
    },
    {
      name: "is the reported exit code if the runtime lost the container",
      pod: {
        ...aPod(),
        status: { containerStatuses: [aStatus("compute", { terminated: { exitCode: 5 } })] },
      },
      want: { exitCode: 5 },
    },
    {
      name: "is 137 if no exit code was observed",
      pod: { ...aPod(), status: { containerStatuses: [aStatus("compute", { running: {} })] } },
      want: { exitCode: 137 },
    },
  ])("$name", ({ pod = aPod(), containers = [], want }) => {
    const exit = findExit(live(pod, { containers }), aContainer());
    expect(exit && { exitCode: exit.exitCode }).toEqual(want);
  });
});

describe("the next init container", () => {
  const reported = (exitCode: number): Pod => ({
    ...WITH_INIT,
    status: { initContainerStatuses: [aStatus("init", { terminated: { exitCode } })] },
  });
  test.each<{ name: string; facts: LivePodFacts; want: string | undefined }>([
    { name: "is the first", facts: live(WITH_INIT), want: "init" },
    { name: "is unset without init containers", facts: live(aPod()), want: undefined },
    {
      name: "is unchanged while it runs",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init" })] }),
      want: "init",
    },
    {
      name: "is unchanged after its failure",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init", ...DONE, exitCode: 1 })] }),
      want: "init",
    },
    {
      name: "is the second when the first is done",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init", ...DONE })] }),
      want: "second",
    },
    {
      name: "is the first again in a new sandbox",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init", ...OLD })] }),
      want: "init",
    },
    {
      name: "is none again once a container proper runs in the sandbox",
      facts: live(WITH_INIT, {
        containers: [aRun(), aRun({ name: "init", ...OLD }), aRun({ name: "second", ...OLD })],
      }),
      want: undefined,
    },
    {
      name: "is the first if the main containers belong to another sandbox",
      facts: live(WITH_INIT, {
        containers: [aRun({ sandboxId: "before" }), aRun({ name: "init", ...OLD })],
      }),
      want: "init",
    },
    {
      name: "is the first where no sandbox runs",
      facts: live(WITH_INIT, {
        sandboxes: [],
        containers: [aRun({ sandboxId: "before" }), aRun({ name: "init", ...OLD })],
      }),
      want: "init",
    },
    {
      name: "skips lost init containers that succeeded once a main container exists",
      facts: live(reported(0), { containers: [aRun()] }),
      want: "second",
    },
    {
      name: "does not skip a lost init container that failed",
      facts: live(reported(1), { containers: [aRun()] }),
      want: "init",
    },
    {
      name: "does not skip a lost init container before any main container exists",
      facts: live(reported(0)),
      want: "init",
    },
  ])("$name", ({ facts, want }) => {
    expect(findNextInitContainer(facts)?.name).toBe(want);
  });
});

describe("phase of a pod", () => {
  const two = aPod({ containers: [aContainer(), aContainer({ name: "other" })] });
  const always = aPod({ restartPolicy: "Always" });
  const dead = { sandboxes: [aSandbox({ state: "NOTREADY" })] };
  test.each<{ name: string; facts: LivePodFacts; want: [string | undefined, string] }>([
    { name: "is pending at first", facts: live(aPod()), want: [undefined, "Pending"] },
    {
      name: "is pending while its container is only made",
      facts: live(aPod(), { containers: [aRun({ state: "CREATED" })] }),
      want: [undefined, "Pending"],
    },
    {
      name: "is running if one of its containers is running",
      facts: live(two, { containers: [aRun()] }),
      want: [undefined, "Running"],
    },
    {
      name: "is running if only one of its containers has ended",
      facts: live(two, { containers: [aRun(DONE)] }),
      want: [undefined, "Running"],
    },
    {
      name: "remains running between container runs",
      facts: live({ ...always, status: { phase: "Running" } }),
      want: [undefined, "Running"],
    },
    {
      name: "is pending while an init container is not done",
      facts: live({ ...WITH_INIT, status: { phase: "Running" } }),
      want: [undefined, "Pending"],
    },
    {
      name: "has succeeded when all have",
      facts: live(two, { containers: [aRun(DONE), aRun({ name: "other", ...DONE })] }),
      want: ["Succeeded", "Succeeded"],
    },
    {
      name: "has failed if one container failed",
      facts: live(two, {
        containers: [aRun(DONE), aRun({ name: "other", ...DONE, exitCode: 1 })],
      }),
      want: ["Failed", "Failed"],
    },
    {
      name: "is running while its containers are to be restarted",
      facts: live(always, { containers: [aRun(DONE)] }),
      want: [undefined, "Running"],
    },
    {
      name: "has failed with an init container",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init", ...DONE, exitCode: 1 })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "is pending if a failed init container is to be restarted",
      facts: live(aPod({ restartPolicy: "OnFailure", initContainers: [INIT] }), {
        containers: [aRun({ name: "init", ...DONE, exitCode: 1 })],
      }),
      want: [undefined, "Pending"],
    },
    {
      name: "has failed if it is rejected before its start",
      facts: live(aPod(), { sandboxes: [], rejection: { reason: "r", message: "m" } }),
      want: ["Failed", "Failed"],
    },
    {
      name: "is pending if it is rejected after its start",
      facts: live(aPod(), { rejection: { reason: "r", message: "m" } }),
      want: [undefined, "Pending"],
    },
    {
      name: "has failed if its sandbox died under policy Never",
      facts: live(aPod(), { ...dead, containers: [aRun({ state: "UNKNOWN" })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "has failed if its sandbox died during an init container under policy Never",
      facts: live(WITH_INIT, { ...dead, containers: [aRun({ name: "init", state: "UNKNOWN" })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "is pending if its sandbox died before any container was created",
      facts: live(aPod(), dead),
      want: [undefined, "Pending"],
    },
    {
      name: "is pending if its sandbox died under policy Always",
      facts: live(always, { ...dead, containers: [aRun({ state: "UNKNOWN" })] }),
      want: [undefined, "Pending"],
    },
    ...(["Succeeded", "Failed"] as const).map((phase) => ({
      name: `remains ${phase} once reported`,
      facts: live({ ...aPod(), status: { phase } }, { containers: [aRun()] }),
      want: [phase, phase] as [string, string],
    })),
  ])("$name", ({ facts, want }) => {
    expect([findFinalPhase(facts), findPhase(facts)]).toEqual(want);
  });
});

const SECOND = 1_000_000_000n;
const KEY = "patchbay.io/restart-delay-seconds";

test.each([
  { policy: "Always", exitCode: 0, isInit: false, want: true },
  { policy: "Always", exitCode: 0, isInit: true, want: false },
  { policy: "Always", exitCode: 1, isInit: true, want: true },
  { policy: "OnFailure", exitCode: 0, isInit: false, want: false },
  { policy: "OnFailure", exitCode: 1, isInit: false, want: true },
  { policy: "OnFailure", exitCode: 0, isInit: true, want: false },
  { policy: "Never", exitCode: 1, isInit: false, want: false },
  { policy: undefined, exitCode: 0, isInit: false, want: true },
  { policy: undefined, exitCode: 0, isInit: true, want: false },
] as const)(
  "policy $policy, exit code $exitCode, init $isInit: restarted $want",
  ({ policy, exitCode, isInit, want }) => {
    const { containers } = aPod().spec;
    const pod = { ...aPod(), spec: { containers, ...(policy && { restartPolicy: policy }) } };
    expect(shouldRestart(pod, { exitCode }, isInit)).toBe(want);
  },
);

describe("a container that is never restarted runs again after", () => {
  const message = "context canceled";
  const cut = { state: "EXITED", exitCode: 128, reason: "StartError", startedAt: 0n } as const;
  test.each([
    { name: "a start that was cut off", change: { message }, want: true },
    {
      name: "a shim that was killed",
      change: { message: "failed to start shim: x\n: signal: killed" },
      want: true,
    },
    { name: "no start that failed", change: { message: "no such file" }, want: false },
    {
      name: "no shim that failed",
      change: { message: "failed to start shim: EPERM" },
      want: false,
    },
    { name: "no container that has run", change: { message, startedAt: 1n }, want: false },
    {
      name: "no container that ended for another reason",
      change: { message, reason: "Error" },
      want: false,
    },
  ])("$name", ({ change, want }) => {
    const container = aRun({ ...cut, ...change });
    expect(shouldRestart(aPod(), { exitCode: 128, container }, false)).toBe(want);
  });
});

test("truncates nanoseconds to milliseconds", () => {
  expect(toMilliseconds(1_999_999n)).toBe(1);
});

describe("delay of the next start", () => {
  test.each([
    { name: "is zero without a recorded delay", annotations: {}, ran: 1n, want: 0 },
    {
      name: "is zero if the recorded delay is not a number",
      annotations: { [KEY]: "x" },
      ran: 1n,
      want: 0,
    },
    {
      name: "is zero if the recorded delay is infinite",
      annotations: { [KEY]: "Infinity" },
      ran: 1n,
      want: 0,
    },
    { name: "is ten seconds at first", annotations: { [KEY]: "0" }, ran: 1n, want: 10 },
    { name: "is at least ten seconds", annotations: { [KEY]: "4" }, ran: 1n, want: 10 },
    { name: "is twice the previous delay", annotations: { [KEY]: "20" }, ran: 599n, want: 40 },
    { name: "is at most five minutes", annotations: { [KEY]: "200" }, ran: 1n, want: 300 },
    {
      name: "is zero after a run of ten minutes",
      annotations: { [KEY]: "200" },
      ran: 600n,
      want: 0,
    },
  ])("$name", ({ annotations, ran, want }) => {
    const times = { startedAt: SECOND, finishedAt: (1n + ran) * SECOND };
    expect(parseRestartDelay(aRun({ state: "EXITED", annotations, ...times }))).toBe(want);
  });

  test("also if the container never ran, however late it failed", () => {
    const times = { startedAt: 0n, finishedAt: 700n * SECOND };
    expect(parseRestartDelay(aRun({ annotations: { [KEY]: "20" }, ...times }))).toBe(40);
  });
});

test.each([
  { name: "the remaining delay", nowMs: 3000, want: 9000 },
  { name: "0 ms when the delay is over", nowMs: 12_000, want: 0 },
  { name: "0 ms long after the delay", nowMs: 99_000, want: 0 },
  {
    name: "at most the longest delay, even if the clock jumped back",
    nowMs: -900_000,
    want: 300_000,
  },
])("a start waits for $name", ({ nowMs, want }) => {
  const times = { startedAt: SECOND, finishedAt: 2n * SECOND };
  const ended = aRun({ state: "EXITED", annotations: { [KEY]: "0" }, ...times });
  expect(computeRestartWaitMs(ended, nowMs)).toBe(want);
});
