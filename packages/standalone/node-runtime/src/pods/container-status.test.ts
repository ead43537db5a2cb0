// SPDX-License-Identifier: Apache-2.0
import type { Condition, ContainerStatus, Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import {
  buildConditions,
  hasForeignCondition,
  type ConditionFacts,
  buildContainerStatus,
} from "./pod-status.ts";
import type { LivePodFacts, PodFacts } from "./facts.ts";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";

const NOW = "2026-11-28T10:00:00Z";
const EARLIER = "2026-11-28T09:00:00Z";

function container(name: string, ready: boolean): ContainerStatus {
  const identity = { name, image: "i", imageID: "i" };
  return { ...identity, ready, started: ready, restartCount: 0, state: {} };
}

function conditions(change: Partial<ConditionFacts> = {}): readonly Condition[] {
  return buildConditions({
    previousConditions: [],
    isFinished: false,
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
      given: { isFinished: true },
      want: { reason: "PodCompleted" },
    },
    {
      name: "are false after a failure",
      given: { isFinished: true, hasFailed: true, containers: [container("a", false)] },
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
    {
      name: "is false while init containers remain",
      given: { isInitialized: false },
      want: UNINITIALIZED,
    },
    {
      name: "is true if the pod succeeded",
      given: { isInitialized: false, isFinished: true },
      want: met,
    },
    {
      name: "is false if the pod failed during initialization",
      given: { isInitialized: false, isFinished: true, hasFailed: true },
      want: UNINITIALIZED,
    },
    {
      name: "is true if the pod failed after initialization",
      given: { isInitialized: true, isFinished: true, hasFailed: true },
      want: met,
    },
  ])("$name", ({ given, want }) => {
    expect(find(conditions(given), "Initialized")).toEqual(want);
  });
});

describe("the last transition time", () => {
  test.each<{
    name: string;
    given: Pick<Condition, "status" | "lastTransitionTime">;
    want: string;
  }>([
    {
      name: "is unchanged if the status is unchanged",
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
    expect(find(conditions({ previousConditions: [other, before] }), "Initialized")).toMatchObject(
      since(want),
    );
  });
});

test("conditions keep their order, and conditions of other owners stay unchanged", () => {
  const imageOfOtherPods: Condition = {
    type: "example.com/Gate",
    status: "False",
    reason: "Closed",
  };
  const before: readonly Condition[] = [imageOfOtherPods, { type: "Ready", status: "True" }];
  const found = conditions({ previousConditions: before });
  expect(found[0]).toBe(imageOfOtherPods);
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
  {
    name: "conditions of the kubelet",
    types: ["Initialized", "Ready", "PodScheduled"],
    want: false,
  },
  { name: "a condition of another owner", types: ["Ready", "example.com/Gate"], want: true },
])("conditions of other owners among $name: $want", ({ types, want }) => {
  expect(hasForeignCondition(types.map((type) => ({ type, status: "True" })))).toBe(want);
});

const WORDS = { printTime: (ms: number) => `at ${String(ms)}`, runtime: "fake" };
const INIT = aContainer({ name: "init" });
const FAILED = { reason: "ErrImagePull", message: "no such image" };
const DELAY = "patchbay.io/restart-delay-seconds";

/** What the object's status says of the container. */
function told(change: Partial<ContainerStatus> = {}): ContainerStatus {
  const { name, image } = aContainer();
  return {
    name,
    image,
    imageID: "sha256:0",
    ready: true,
    started: true,
    restartCount: 0,
    state: {},
    ...change,
  };
}

interface Given extends Partial<Omit<PodFacts, "pod">> {
  readonly spec?: Partial<Pod["spec"]>;
  readonly metadata?: Partial<Pod["metadata"]>;
  readonly told?: ContainerStatus;
}

function statusOf(given: Given, container = aContainer()): ContainerStatus {
  const { spec, metadata, told: before, ...facts } = given;
  const status = before && { containerStatuses: [told({ name: "other" }), before] };
  const pod: Pod = { ...aPod(spec, metadata), ...(status && { status }) };
  const all: LivePodFacts = { ...podFacts({ ...facts, pod }), pod };
  return buildContainerStatus(all, container, WORDS);
}

const ended = (change: object = {}) =>
  aRun({
    state: "EXITED",
    startedAt: 2_000_000n,
    finishedAt: 5_000_000n,
    exitCode: 3,
    reason: "Error",
    ...change,
  });

const ENDED = {
  exitCode: 3,
  reason: "Error",
  startedAt: "at 2",
  finishedAt: "at 5",
  containerID: "fake://c0",
};

test("a container that was never created waits, without an id and a last state", () => {
  expect(statusOf({})).toEqual({
    name: "compute",
    image: "localhost/launcher:dev",
    imageID: "",
    ready: false,
    started: false,
    restartCount: 0,
    state: { waiting: { reason: "ContainerCreating" } },
  });
});

describe("a running container", () => {
  test.each([
    { name: "without probes", health: new Map(), want: [true, true] },
    {
      name: "that is not ready",
      health: new Map([["c0", { isReady: false, isStarted: true, isUnhealthy: false }]]),
      want: [false, true],
    },
    {
      name: "that has not started",
      health: new Map([["c0", { isReady: false, isStarted: false, isUnhealthy: false }]]),
      want: [false, false],
    },
  ])("$name", ({ health, want }) => {
    const { ready, started, ...rest } = statusOf({ containers: [aRun()], health });
    expect([ready, started]).toEqual(want);
    expect(rest).toEqual({
      name: "compute",
      image: "localhost/launcher:dev",
      imageID: "sha256:1",
      containerID: "fake://c0",
      restartCount: 0,
      state: { running: { startedAt: "at 1000" } },
    });
  });

  test("has no start time until the runtime reports a start", () => {
    const { state } = statusOf({ containers: [aRun({ startedAt: 0n })] });
    expect(state).toEqual({ running: {} });
  });
});

describe("a container that ended for good", () => {
  test.each([
    { name: "reports its exit code and times", change: {}, want: ENDED },
    { name: "without a reason: Error", change: { reason: "" }, want: ENDED },
    {
      name: "with a message",
      change: { reason: "OOMKilled", message: "out of memory" },
      want: { ...ENDED, reason: "OOMKilled", message: "out of memory" },
    },
    {
      name: "reports a failed start",
      change: { startedAt: 0n, finishedAt: 0n },
      want: { exitCode: 3, reason: "Error", containerID: "fake://c0" },
    },
  ])("$name", ({ change, want }) => {
    const { state, ready, started, lastState } = statusOf({ containers: [ended(change)] });
    expect({ state, ready, started, lastState }).toEqual({
      state: { terminated: want },
      ready: false,
      started: false,
    });
  });
});

describe("a waiting container", () => {
  const mounts = (reference: string) => ({ name: reference, image: { reference } });
  const failed = (...references: readonly string[]) =>
    new Map(
      references.map(
        (one) =>
          [one, { kind: "failed", pauseMs: 1, summary: { ...FAILED, message: one } }] as const,
      ),
    );
  const paused = (...steps: readonly string[]) =>
    new Map(steps.map((step) => [step, { pauseMs: 1, summary: { ...FAILED, message: step } }]));
  test.each<{ name: string; given: Given; want: object; of?: typeof INIT }>([
    {
      name: "reports a volume failure first",
      given: {
        pausedSteps: paused("container compute", "sandbox", "volumes"),
        images: failed("a"),
      },
      want: { ...FAILED, message: "volumes" },
    },
    {
      name: "reports a sandbox failure",
      given: { pausedSteps: paused("container compute", "sandbox") },
      want: { ...FAILED, message: "sandbox" },
    },
    {
      name: "reports its own start failure",
      given: { pausedSteps: paused("container other", "container compute") },
      want: { ...FAILED, message: "container compute" },
    },
    {
      name: "reports the failure of a mounted image before its own",
      given: {
        spec: { volumes: [{ name: "e", emptyDir: {} }, mounts("kernel")] },
        images: failed("localhost/launcher:dev", "kernel"),
      },
      want: { ...FAILED, message: "kernel" },
    },
    {
      name: "reports the failure of its own image",
      given: { images: failed("localhost/launcher:dev", "kernel") },
      want: { ...FAILED, message: "localhost/launcher:dev" },
    },
    {
      name: "reports PodInitializing while init containers remain",
      given: { spec: { initContainers: [aContainer({ name: "first" }), INIT] } },
      want: { reason: "PodInitializing" },
    },
    {
      name: "reports ContainerCreating as an init container",
      given: { spec: { initContainers: [aContainer({ name: "first" }), INIT] } },
      want: { reason: "ContainerCreating" },
      of: INIT,
    },
    {
      name: "reports ContainerCreating after all init containers",
      given: {
        spec: { initContainers: [INIT] },
        sandboxes: [aSandbox()],
        containers: [ended({ name: "init", exitCode: 0 })],
      },
      want: { reason: "ContainerCreating" },
    },
    {
      name: "reports ContainerCreating once it is created",
      given: { containers: [aRun({ state: "CREATED" })] },
      want: { reason: "ContainerCreating" },
    },
    {
      name: "reports ContainerCreating while its state is unknown",
      given: { containers: [aRun({ state: "UNKNOWN" })] },
      want: { reason: "ContainerCreating" },
    },
  ])("$name", ({ given, want, of }) => {
    expect(statusOf(given, of).state).toEqual({ waiting: want });
  });
});

describe("a container that the runtime has removed", () => {
  const id = { containerID: "fake://c0" };
  test("retains its reported termination", () => {
    const terminated = { exitCode: 4, reason: "Error" };
    expect(statusOf({ told: told({ ...id, restartCount: 2, state: { terminated } }) })).toEqual({
      name: "compute",
      image: "localhost/launcher:dev",
      imageID: "sha256:0",
      ...id,
      ready: false,
      started: false,
      restartCount: 2,
      state: { terminated },
    });
  });

  test("has an unknown termination if no termination was reported", () => {
    const { state } = statusOf({ told: told({ ...id, state: { running: {} } }) });
    expect(state).toEqual({
      terminated: {
        exitCode: 137,
        reason: "ContainerStatusUnknown",
        message: "the container was removed before its exit code was read",
      },
    });
  });

  test("has no id if no id was reported", () => {
    expect(statusOf({ told: told() })).not.toHaveProperty("containerID");
  });
});

describe("a container that is restarted", () => {
  const late = { annotations: { [DELAY]: "10" } };
  const spec = { restartPolicy: "OnFailure" } as const;
  const backOff = {
    reason: "CrashLoopBackOff",
    message: "it ended with 3 and is restarted 20 s after its end",
  };
  const terminated = { terminated: ENDED };
  test.each<{ name: string; given: Given; want: object; of?: typeof INIT }>([
    {
      name: "waits, and its last state is the end",
      given: { spec, containers: [ended(late)] },
      want: { state: { waiting: backOff }, lastState: terminated },
    },
    {
      name: "reports the failure that blocks its start",
      given: {
        spec,
        containers: [ended(late)],
        pausedSteps: new Map([["container compute", { pauseMs: 1, summary: FAILED }]]),
      },
      want: { state: { waiting: FAILED }, lastState: terminated },
    },
    {
      name: "is terminated if its start is due at once",
      given: { spec, containers: [ended()] },
      want: { state: terminated },
    },
    {
      name: "is terminated if it is never restarted",
      given: { containers: [ended(late)] },
      want: { state: terminated },
    },
    {
      name: "is terminated if its pod is being deleted",
      given: {
        spec,
        containers: [ended(late)],
        metadata: { deletionTimestamp: "2026-11-28T10:00:00Z" },
      },
      want: { state: terminated },
    },
    {
      name: "is terminated as a succeeded init container",
      given: {
        spec: { restartPolicy: "Always", initContainers: [aContainer({ name: "first" }), INIT] },
        containers: [ended({ ...late, name: "init", exitCode: 0 })],
      },
      want: { state: { terminated: { ...ENDED, exitCode: 0 } } },
      of: INIT,
    },
    {
      name: "waits even after success under policy Always",
      given: {
        spec: { restartPolicy: "Always", initContainers: [INIT] },
        containers: [ended({ ...late, exitCode: 0 })],
      },
      want: {
        state: { waiting: { ...backOff, message: backOff.message.replace("3", "0") } },
        lastState: { terminated: { ...ENDED, exitCode: 0 } },
      },
    },
  ])("$name", ({ given, want, of }) => {
    const { state, lastState } = statusOf(given, of);
    expect({ state, ...(lastState && { lastState }) }).toEqual(want);
  });
});

describe("the last state of a container", () => {
  const running = aRun({ id: "c1", attempt: 1 });
  const earlier = { terminated: { exitCode: 9, reason: "Error" } };
  const before = { terminated: { exitCode: 8, reason: "Error" } };
  test.each<{ name: string; given: Given; want: object | undefined }>([
    {
      name: "is the run before, as the runtime has it",
      given: {
        containers: [aRun({ id: "x", name: "other" }), running, ended()],
        told: told({ containerID: "fake://c0", state: earlier, lastState: before }),
      },
      want: { terminated: ENDED },
    },
    {
      name: "is the reported termination of the previous run",
      given: {
        containers: [running, ended({ name: "other" })],
        told: told({ containerID: "fake://c0", state: earlier, lastState: before }),
      },
      want: earlier,
    },
    {
      name: "is unchanged while the same run is reported",
      given: {
        containers: [running],
        told: told({ containerID: "fake://c1", state: earlier, lastState: before }),
      },
      want: before,
    },
    {
      name: "is unchanged if no termination of the previous run was reported",
      given: {
        containers: [running],
        told: told({ containerID: "fake://c0", state: { running: {} }, lastState: before }),
      },
      want: before,
    },
    {
      name: "is unchanged if the container was removed",
      given: { told: told({ state: earlier, lastState: before }) },
      want: before,
    },
    {
      name: "is unset in the first run",
      given: {
        containers: [aRun()],
        told: told({ containerID: "fake://old", state: earlier }),
      },
      want: undefined,
    },
    {
      name: "is unset without a reported status",
      given: { containers: [running] },
      want: undefined,
    },
  ])("$name", ({ given, want }) => {
    expect(statusOf(given).lastState).toEqual(want);
  });
});

describe("restarts", () => {
  test.each<{ name: string; given: Given; want: number }>([
    {
      name: "equal the attempt of the newest run",
      given: { containers: [aRun({ attempt: 3 })] },
      want: 3,
    },
    {
      name: "equal the reported count if the runtime has no container",
      given: { told: told({ containerID: "fake://c0", restartCount: 4 }) },
      want: 4,
    },
    {
      name: "are 0 if the container was never created",
      given: { told: told({ restartCount: 4 }) },
      want: 0,
    },
  ])("$name", ({ given, want }) => {
    expect(statusOf(given).restartCount).toBe(want);
  });
});
