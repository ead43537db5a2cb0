// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import type { PodFacts } from "./facts.ts";
import { planPod } from "./plan.ts";
import { parseRestartDelay } from "./progress.ts";

const NOW_MS = 1_000_000;
const SHOWN = { reason: "CreateContainerError", message: "no" };

function kinds(facts: PodFacts): readonly string[] {
  return planPod(facts, NOW_MS).map(({ kind }) => kind);
}

const INTERRUPTED_START = {
  state: "EXITED",
  exitCode: 128,
  reason: "StartError",
  startedAt: 0n,
} as const;
const always = aPod({ restartPolicy: "Always" });
const deleted = aPod({}, { deletionTimestamp: new Date(NOW_MS + 20_000).toISOString() });

test.each<{ name: string; facts: PodFacts; want: readonly string[] }>([
  {
    name: "a new pod gets a sandbox, volumes and its container",
    facts: podFacts(),
    want: ["runSandbox", "prepareVolumes", "startContainer"],
  },
  {
    name: "an existing sandbox is used",
    facts: podFacts({ sandboxes: [aSandbox()] }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a running pod needs no action",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun()] }),
    want: [],
  },
  {
    name: "a created container is started",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "CREATED" })] }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a container in unknown state is stopped",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "UNKNOWN" })] }),
    want: ["stopContainer"],
  },
  {
    name: "a finished pod releases its network once",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "EXITED" })] }),
    want: ["stopSandbox"],
  },
  {
    name: "a finished pod with a released network needs no action",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [aRun({ state: "EXITED" })],
      releasedSandboxIds: new Set(["s0"]),
    }),
    want: [],
  },
  {
    name: "a canceled start is repeated even under policy Never",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [
        aRun({ ...INTERRUPTED_START, message: "failed to start: context canceled: unknown" }),
      ],
    }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a start whose shim was killed is repeated",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [
        aRun({
          ...INTERRUPTED_START,
          message:
            "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown",
        }),
      ],
    }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a start that failed for good is not repeated",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [aRun({ ...INTERRUPTED_START, message: "exec: no such file" })],
    }),
    want: ["stopSandbox"],
  },
  {
    name: "a dead sandbox is removed before a new sandbox starts",
    facts: podFacts({
      pod: always,
      sandboxes: [aSandbox({ state: "NOTREADY" })],
      containers: [aRun({ state: "EXITED", exitCode: 255 })],
    }),
    want: ["stopSandbox", "removeSandbox", "runSandbox", "prepareVolumes", "startContainer"],
  },
  {
    name: "a container that the status reports as started is not started again, even if the runtime lost it",
    facts: podFacts({
      pod: {
        ...aPod(),
        status: {
          phase: "Running",
          containerStatuses: [
            {
              name: "compute",
              image: "i",
              imageID: "i",
              ready: true,
              restartCount: 0,
              containerID: "fake://c0",
              state: { running: {} },
            },
          ],
        },
      },
    }),
    want: [],
  },
  {
    name: "a missing image is pulled while the sandbox starts",
    facts: podFacts({ images: new Map([["localhost/launcher:dev", { kind: "absent" }]]) }),
    want: ["runSandbox", "prepareVolumes", "pullImage"],
  },
  {
    name: "a step that failed is waited for",
    facts: podFacts({
      sandboxes: [aSandbox()],
      pausedSteps: new Map([["container compute", { summary: SHOWN, pauseMs: 5 }]]),
    }),
    want: ["wait"],
  },
  {
    name: "a deleted pod is stopped gracefully",
    facts: podFacts({ pod: deleted, sandboxes: [aSandbox()], containers: [aRun()] }),
    want: ["stopContainer", "wait"],
  },
  {
    name: "a deleted pod is removed after its containers ended",
    facts: podFacts({
      pod: deleted,
      sandboxes: [aSandbox()],
      hasLeftovers: true,
      containers: [aRun({ state: "EXITED" })],
    }),
    want: ["stopSandbox", "removeSandbox", "removeRemains", "deleteObject"],
  },
  {
    name: "a deleted pod that never started is removed from the API server",
    facts: podFacts({ pod: deleted }),
    want: ["deleteObject"],
  },
  {
    name: "leftovers of a pod without an object are removed",
    facts: podFacts({ pod: undefined, sandboxes: [aSandbox()], containers: [aRun()] }),
    want: ["stopSandbox", "removeSandbox", "removeRemains"],
  },
  {
    name: "a pod without object and leftovers needs no action",
    facts: podFacts({ pod: undefined }),
    want: [],
  },
  {
    name: "a rejected pod needs no action",
    facts: podFacts({ pod: aPod({ hostPID: true }), rejection: { reason: "r", message: "m" } }),
    want: [],
  },
])("$name", ({ facts, want }) => {
  expect(kinds(facts)).toEqual(want);
});

test("stops containers with the remaining grace period", () => {
  const facts = podFacts({ pod: deleted, sandboxes: [aSandbox()], containers: [aRun()] });
  expect(planPod(facts, NOW_MS + 15_000)[0]).toEqual({
    kind: "stopContainer",
    id: "c0",
    graceSeconds: 5,
  });
  expect(
    kinds({ ...facts, pod: aPod({}, { deletionTimestamp: new Date(0).toISOString() }) }),
  ).toEqual(["stopSandbox", "removeSandbox", "removeRemains", "deleteObject"]);
});

test("containers wait for the init containers before them", () => {
  const pod = aPod({ initContainers: [aContainer({ name: "one" }), aContainer({ name: "two" })] });
  const facts = podFacts({ pod, sandboxes: [aSandbox()] });
  expect(planPod(facts, NOW_MS).at(-1)).toMatchObject({ container: "one" });
  const one = aRun({ id: "c1", name: "one", state: "EXITED" });
  expect(planPod({ ...facts, containers: [one] }, NOW_MS).at(-1)).toMatchObject({
    container: "two",
  });
  const two = aRun({ id: "c2", name: "two" });
  expect(kinds({ ...facts, containers: [two, one] })).toEqual([]);
});

describe("delay of sandboxes that die at once", () => {
  test.each([
    { attempt: 0, want: "stopSandbox" },
    { attempt: 1, want: "wait" },
    { attempt: 9, want: "wait" },
  ])("after attempt $attempt", ({ attempt, want }) => {
    const metadata = { ...aSandbox().metadata, attempt };
    const createdAt = BigInt(NOW_MS - 500) * 1_000_000n;
    const sandboxes = [aSandbox({ state: "NOTREADY", metadata, createdAt })];
    expect(kinds(podFacts({ pod: always, sandboxes }))[0]).toBe(want);
  });
});

test("retains only the ended container that --previous shows", () => {
  const dead = [3, 2, 1].map((attempt) =>
    aRun({ id: `c${String(attempt)}`, attempt, state: "EXITED" }),
  );
  const facts = podFacts({
    pod: always,
    sandboxes: [aSandbox()],
    containers: [aRun({ id: "c4", attempt: 4 }), ...dead],
  });
  expect(planPod(facts, NOW_MS)).toEqual([
    { kind: "removeContainer", id: "c2" },
    { kind: "removeContainer", id: "c1" },
  ]);
});

describe("delay of a restart", () => {
  const second = 1_000_000_000n;

  test.each([
    { name: "is zero at first", before: undefined, ran: 1n, want: 0 },
    { name: "is ten seconds at the second start", before: 0, ran: 1n, want: 10 },
    { name: "doubles each time", before: 40, ran: 1n, want: 80 },
    { name: "is limited to five minutes", before: 300, ran: 1n, want: 300 },
    { name: "is reset after a run of ten minutes", before: 300, ran: 600n, want: 0 },
  ])("$name", ({ before, ran, want }) => {
    const annotations =
      before === undefined ? {} : { "patchbay.io/restart-delay-seconds": String(before) };
    const times = { startedAt: second, finishedAt: second + ran * second };
    expect(parseRestartDelay(aRun({ state: "EXITED", annotations, ...times }))).toBe(want);
  });
});

describe("a plan", () => {
  const present = podFacts().images;
  const wait = (ms: number) => ({ kind: "wait", ms });
  const stop = (id: string, graceSeconds: number) => ({ kind: "stopContainer", id, graceSeconds });
  const start = (more: object) => ({ kind: "startContainer", container: "compute", ...more });
  const mounted = aPod({ volumes: [{ name: "k", image: { reference: "guest" } }] });
  const failed = { kind: "failed", summary: SHOWN, pauseMs: 7 } as const;
  const ended = (change = {}) =>
    aRun({
      state: "EXITED",
      exitCode: 1,
      attempt: 2,
      startedAt: BigInt(NOW_MS - 1000) * 1_000_000n,
      finishedAt: BigInt(NOW_MS) * 1_000_000n,
      ...change,
    });
  const delayed = { annotations: { "patchbay.io/restart-delay-seconds": "0" } };

  test.each<{ name: string; facts: Partial<PodFacts>; want: readonly object[] }>([
    {
      name: "starts a created container instead of a new one",
      facts: { sandboxes: [aSandbox()], containers: [aRun({ state: "CREATED", attempt: 3 })] },
      want: [{ kind: "prepareVolumes" }, start({ attempt: 3, createdId: "c0" })],
    },
    {
      name: "waits after a failed start of a created container",
      facts: {
        sandboxes: [aSandbox()],
        containers: [aRun({ state: "CREATED" })],
        pausedSteps: new Map([["container compute", { summary: SHOWN, pauseMs: 4.2 }]]),
      },
      want: [wait(5)],
    },
    {
      name: "waits with volumes that failed, and starts nothing",
      facts: {
        sandboxes: [aSandbox()],
        pausedSteps: new Map([["volumes", { summary: SHOWN, pauseMs: 6 }]]),
      },
      want: [wait(6)],
    },
    {
      name: "waits after failed volumes before it creates a sandbox",
      facts: { pausedSteps: new Map([["volumes", { summary: SHOWN, pauseMs: 6 }]]) },
      want: [wait(6)],
    },
    {
      name: "waits with a sandbox that failed",
      facts: { pausedSteps: new Map([["sandbox", { summary: SHOWN, pauseMs: 6 }]]) },
      want: [wait(6)],
    },
    {
      name: "does not stop a healthy container",
      facts: {
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: false }]]),
      },
      want: [],
    },
    {
      name: "stops an unhealthy container with a grace period of 30 s",
      facts: {
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: true }]]),
      },
      want: [stop("c0", 30)],
    },
    {
      name: "stops an unhealthy container with the pod's grace period",
      facts: {
        pod: aPod({ terminationGracePeriodSeconds: 5 }),
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: true }]]),
      },
      want: [stop("c0", 5)],
    },
    {
      name: "stops an unhealthy container with its probe's grace period",
      facts: {
        pod: aPod({
          terminationGracePeriodSeconds: 5,
          containers: [aContainer({ livenessProbe: { terminationGracePeriodSeconds: 2 } })],
        }),
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: true }]]),
      },
      want: [stop("c0", 2)],
    },
    {
      name: "kills a container in unknown state at once",
      facts: { sandboxes: [aSandbox()], containers: [aRun({ state: "UNKNOWN" })] },
      want: [stop("c0", 0)],
    },
    {
      name: "restarts a terminated container and records the next delay",
      facts: { pod: always, sandboxes: [aSandbox()], containers: [ended()] },
      want: [{ kind: "prepareVolumes" }, start({ attempt: 3, delaySeconds: 0 })],
    },
    {
      name: "delays the restart of a crashing container",
      facts: { pod: always, sandboxes: [aSandbox()], containers: [ended(delayed)] },
      want: [wait(10_000)],
    },
    {
      name: "delays the restart in a new sandbox",
      facts: {
        pod: always,
        sandboxes: [aSandbox()],
        containers: [ended({ ...delayed, sandboxId: "before" })],
      },
      want: [wait(10_000)],
    },
    {
      name: "waits for a container that runs in another sandbox",
      facts: {
        pod: always,
        sandboxes: [aSandbox()],
        containers: [aRun({ sandboxId: "before" })],
      },
      want: [],
    },
    {
      name: "restarts an init container in a new sandbox without delay",
      facts: {
        pod: aPod({ restartPolicy: "Always", initContainers: [aContainer({ name: "one" })] }),
        sandboxes: [aSandbox()],
        containers: [ended({ ...delayed, name: "one", sandboxId: "before" })],
      },
      want: [{ kind: "prepareVolumes" }, { kind: "startContainer", container: "one", attempt: 3 }],
    },
    {
      name: "recreates a created container in a new sandbox",
      facts: {
        pod: always,
        sandboxes: [aSandbox()],
        containers: [aRun({ state: "CREATED", sandboxId: "before" })],
      },
      want: [{ kind: "prepareVolumes" }, start({ attempt: 1 })],
    },
    {
      name: "waits for an image that is being pulled",
      facts: {
        sandboxes: [aSandbox()],
        images: new Map([["localhost/launcher:dev", { kind: "pulling" }]]),
      },
      want: [],
    },
    {
      name: "waits after a failed pull",
      facts: {
        sandboxes: [aSandbox()],
        images: new Map([["localhost/launcher:dev", failed]]),
      },
      want: [wait(7)],
    },
    {
      name: "pulls a mounted image before it creates the sandbox",
      facts: { pod: mounted, images: new Map([...present, ["guest", { kind: "absent" }]]) },
      want: [{ kind: "pullImage", reference: "guest" }],
    },
    {
      name: "waits for an image that is mounted and being pulled",
      facts: { pod: mounted, images: new Map([...present, ["guest", { kind: "pulling" }]]) },
      want: [],
    },
    {
      name: "creates the sandbox when the mounted image is present",
      facts: {
        pod: mounted,
        images: new Map([...present, ["guest", present.get("localhost/launcher:dev") ?? failed]]),
      },
      want: [{ kind: "runSandbox", attempt: 0 }, { kind: "prepareVolumes" }, start({ attempt: 0 })],
    },
    {
      name: "replaces dead sandboxes by a sandbox with the next attempt number",
      facts: {
        pod: always,
        sandboxes: [
          aSandbox({
            id: "s1",
            state: "NOTREADY",
            metadata: { ...aSandbox().metadata, attempt: 1 },
          }),
          aSandbox({ state: "NOTREADY" }),
        ],
      },
      want: [
        { kind: "stopSandbox", id: "s1" },
        { kind: "removeSandbox", id: "s1" },
        { kind: "stopSandbox", id: "s0" },
        { kind: "removeSandbox", id: "s0" },
        { kind: "runSandbox", attempt: 2 },
        { kind: "prepareVolumes" },
        start({ attempt: 0 }),
      ],
    },
    {
      name: "does not stop a sandbox of a finished pod twice",
      facts: {
        sandboxes: [aSandbox({ id: "s1" }), aSandbox()],
        containers: [aRun({ state: "EXITED" })],
        releasedSandboxIds: new Set(["s1"]),
      },
      want: [{ kind: "stopSandbox", id: "s0" }],
    },
    {
      name: "removes a leftover directory",
      facts: { pod: undefined, hasLeftovers: true },
      want: [{ kind: "removeRemains" }],
    },
    {
      name: "grants a deleted pod at least one second",
      facts: {
        pod: aPod({}, { deletionTimestamp: new Date(NOW_MS + 200).toISOString() }),
        sandboxes: [aSandbox()],
        containers: [aRun()],
      },
      want: [stop("c0", 1), wait(200)],
    },
    {
      name: "removes a deleted pod at its deadline",
      facts: {
        pod: aPod({}, { deletionTimestamp: new Date(NOW_MS).toISOString() }),
        containers: [aRun()],
      },
      want: [{ kind: "deleteObject" }],
    },
    {
      name: "stops only running and unknown containers of a deleted pod",
      facts: {
        pod: deleted,
        containers: [
          aRun({ id: "c1", state: "EXITED" }),
          aRun({ id: "c2", state: "UNKNOWN" }),
          aRun({ id: "c3" }),
        ],
      },
      want: [stop("c2", 20), stop("c3", 20), wait(20_000)],
    },
  ])("$name", ({ facts, want }) => {
    expect(planPod(podFacts(facts), NOW_MS)).toEqual(want);
  });

  test.each([
    { attempt: 1, ageMs: 0, want: 1000 },
    { attempt: 1, ageMs: 1000, want: undefined },
    { attempt: 3, ageMs: 1000, want: 3000 },
    { attempt: 9, ageMs: 0, want: 256_000 },
    { attempt: 20, ageMs: 0, want: 256_000 },
  ])("waits for sandbox $attempt after $ageMs ms: $want", ({ attempt, ageMs, want }) => {
    const metadata = { ...aSandbox().metadata, attempt };
    const createdAt = BigInt(NOW_MS - ageMs) * 1_000_000n;
    const sandboxes = [aSandbox({ state: "NOTREADY", metadata, createdAt })];
    const [first] = planPod(podFacts({ pod: always, sandboxes }), NOW_MS);
    expect(first).toEqual(
      want === undefined ? { kind: "stopSandbox", id: "s0" } : { kind: "wait", ms: want },
    );
  });

  test("retains two ended containers of a name, including the newest", () => {
    const dead = [3, 2, 1].map((attempt) =>
      aRun({ id: `c${String(attempt)}`, attempt, state: "EXITED", exitCode: 0 }),
    );
    const other = aRun({ id: "o1", name: "other", state: "EXITED" });
    const facts = podFacts({
      pod: aPod({
        restartPolicy: "OnFailure",
        containers: [aContainer(), aContainer({ name: "x" })],
      }),
      sandboxes: [aSandbox()],
      containers: [...dead, aRun({ id: "x0", name: "x" }), other],
    });
    expect(planPod(facts, NOW_MS)).toEqual([{ kind: "removeContainer", id: "c1" }]);
  });
});
