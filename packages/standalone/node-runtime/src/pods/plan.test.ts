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
    name: "a sandbox that is there is used",
    facts: podFacts({ sandboxes: [aSandbox()] }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a running pod is left alone",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun()] }),
    want: [],
  },
  {
    name: "a container that was made and not started is started",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "CREATED" })] }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "one of which the runtime knows nothing is ended",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "UNKNOWN" })] }),
    want: ["stopContainer"],
  },
  {
    name: "a pod that is over gives its network back, once",
    facts: podFacts({ sandboxes: [aSandbox()], containers: [aRun({ state: "EXITED" })] }),
    want: ["stopSandbox"],
  },
  {
    name: "and is left alone then",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [aRun({ state: "EXITED" })],
      releasedSandboxIds: new Set(["s0"]),
    }),
    want: [],
  },
  {
    name: "a start that was cut off is made again, whatever is done of ends",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [
        aRun({ ...INTERRUPTED_START, message: "failed to start: context canceled: unknown" }),
      ],
    }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a start that was cut off while the shim's program began is made again",
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
    name: "one that cannot be is not",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [aRun({ ...INTERRUPTED_START, message: "exec: no such file" })],
    }),
    want: ["stopSandbox"],
  },
  {
    name: "a dead sandbox goes before the next one comes",
    facts: podFacts({
      pod: always,
      sandboxes: [aSandbox({ state: "NOTREADY" })],
      containers: [aRun({ state: "EXITED", exitCode: 255 })],
    }),
    want: ["stopSandbox", "removeSandbox", "runSandbox", "prepareVolumes", "startContainer"],
  },
  {
    name: "what the object says has run is not run again, though the runtime has forgotten it",
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
    name: "an image that is not there is fetched, in the sandbox's time",
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
    name: "a deleted pod is asked to end and waited for",
    facts: podFacts({ pod: deleted, sandboxes: [aSandbox()], containers: [aRun()] }),
    want: ["stopContainer", "wait"],
  },
  {
    name: "and goes when it has ended",
    facts: podFacts({
      pod: deleted,
      sandboxes: [aSandbox()],
      hasLeftovers: true,
      containers: [aRun({ state: "EXITED" })],
    }),
    want: ["stopSandbox", "removeSandbox", "removeRemains", "deleteObject"],
  },
  {
    name: "of one that never was only the object goes",
    facts: podFacts({ pod: deleted }),
    want: ["deleteObject"],
  },
  {
    name: "what is left of a pod whose object is gone is removed",
    facts: podFacts({ pod: undefined, sandboxes: [aSandbox()], containers: [aRun()] }),
    want: ["stopSandbox", "removeSandbox", "removeRemains"],
  },
  { name: "nothing is left to do", facts: podFacts({ pod: undefined }), want: [] },
  {
    name: "a pod that may not run is left alone",
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
    { name: "not the first time", before: undefined, ran: 1n, want: 0 },
    { name: "ten seconds then", before: 0, ran: 1n, want: 10 },
    { name: "twice as long each time", before: 40, ran: 1n, want: 80 },
    { name: "five minutes at most", before: 300, ran: 1n, want: 300 },
    { name: "not any more once it ran for ten minutes", before: 300, ran: 600n, want: 0 },
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
      name: "starts a container that was made, and makes none beside it",
      facts: { sandboxes: [aSandbox()], containers: [aRun({ state: "CREATED", attempt: 3 })] },
      want: [{ kind: "prepareVolumes" }, start({ attempt: 3, createdId: "c0" })],
    },
    {
      name: "waits with a start that was made and failed",
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
      name: "waits with volumes that failed before the sandbox is made",
      facts: { pausedSteps: new Map([["volumes", { summary: SHOWN, pauseMs: 6 }]]) },
      want: [wait(6)],
    },
    {
      name: "waits with a sandbox that failed",
      facts: { pausedSteps: new Map([["sandbox", { summary: SHOWN, pauseMs: 6 }]]) },
      want: [wait(6)],
    },
    {
      name: "leaves a container alone that is well",
      facts: {
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: false }]]),
      },
      want: [],
    },
    {
      name: "ends an unhealthy container in thirty seconds",
      facts: {
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: true }]]),
      },
      want: [stop("c0", 30)],
    },
    {
      name: "ends an unhealthy container in the pod's grace",
      facts: {
        pod: aPod({ terminationGracePeriodSeconds: 5 }),
        sandboxes: [aSandbox()],
        containers: [aRun()],
        health: new Map([["c0", { isStarted: true, isReady: false, isUnhealthy: true }]]),
      },
      want: [stop("c0", 5)],
    },
    {
      name: "ends an unhealthy container in its probe's grace",
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
      name: "ends at once what the runtime knows nothing of",
      facts: { sandboxes: [aSandbox()], containers: [aRun({ state: "UNKNOWN" })] },
      want: [stop("c0", 0)],
    },
    {
      name: "starts again what ended, with the delay of the next time",
      facts: { pod: always, sandboxes: [aSandbox()], containers: [ended()] },
      want: [{ kind: "prepareVolumes" }, start({ attempt: 3, delaySeconds: 0 })],
    },
    {
      name: "waits with the start of what ends again and again",
      facts: { pod: always, sandboxes: [aSandbox()], containers: [ended(delayed)] },
      want: [wait(10_000)],
    },
    {
      name: "starts in a new sandbox what ended in the one before, when it is time",
      facts: {
        pod: always,
        sandboxes: [aSandbox()],
        containers: [ended({ ...delayed, sandboxId: "before" })],
      },
      want: [wait(10_000)],
    },
    {
      name: "leaves what runs in another sandbox to its end",
      facts: {
        pod: always,
        sandboxes: [aSandbox()],
        containers: [aRun({ sandboxId: "before" })],
      },
      want: [],
    },
    {
      name: "makes an init container anew in a new sandbox, without delay",
      facts: {
        pod: aPod({ restartPolicy: "Always", initContainers: [aContainer({ name: "one" })] }),
        sandboxes: [aSandbox()],
        containers: [ended({ ...delayed, name: "one", sandboxId: "before" })],
      },
      want: [{ kind: "prepareVolumes" }, { kind: "startContainer", container: "one", attempt: 3 }],
    },
    {
      name: "makes in a new sandbox what was made in the one before",
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
      name: "waits with an image that failed",
      facts: {
        sandboxes: [aSandbox()],
        images: new Map([["localhost/launcher:dev", failed]]),
      },
      want: [wait(7)],
    },
    {
      name: "fetches an image that is mounted before it makes a sandbox",
      facts: { pod: mounted, images: new Map([...present, ["guest", { kind: "absent" }]]) },
      want: [{ kind: "pullImage", reference: "guest" }],
    },
    {
      name: "waits for an image that is mounted and being pulled",
      facts: { pod: mounted, images: new Map([...present, ["guest", { kind: "pulling" }]]) },
      want: [],
    },
    {
      name: "makes a sandbox when the image that is mounted is there",
      facts: {
        pod: mounted,
        images: new Map([...present, ["guest", present.get("localhost/launcher:dev") ?? failed]]),
      },
      want: [{ kind: "runSandbox", attempt: 0 }, { kind: "prepareVolumes" }, start({ attempt: 0 })],
    },
    {
      name: "makes a sandbox with the next number in the place of dead ones",
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
      name: "leaves alone what was stopped already of a pod that is over",
      facts: {
        sandboxes: [aSandbox({ id: "s1" }), aSandbox()],
        containers: [aRun({ state: "EXITED" })],
        releasedSandboxIds: new Set(["s1"]),
      },
      want: [{ kind: "stopSandbox", id: "s0" }],
    },
    {
      name: "removes a directory that is all that is left",
      facts: { pod: undefined, hasLeftovers: true },
      want: [{ kind: "removeRemains" }],
    },
    {
      name: "gives a deleted pod a second at least",
      facts: {
        pod: aPod({}, { deletionTimestamp: new Date(NOW_MS + 200).toISOString() }),
        sandboxes: [aSandbox()],
        containers: [aRun()],
      },
      want: [stop("c0", 1), wait(200)],
    },
    {
      name: "ends a deleted pod at its deadline",
      facts: {
        pod: aPod({}, { deletionTimestamp: new Date(NOW_MS).toISOString() }),
        containers: [aRun()],
      },
      want: [{ kind: "deleteObject" }],
    },
    {
      name: "asks of a deleted pod only what runs, known or not",
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
