// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import type { PodFacts } from "./facts.ts";
import { planPod } from "./plan.ts";
import { restartDelayOf } from "./containers/restart.ts";

const NOW_MS = 1_000_000;
const SHOWN = { reason: "CreateContainerError", message: "no" };

function kinds(facts: PodFacts): readonly string[] {
  return planPod(facts, NOW_MS).map(({ kind }) => kind);
}

const CUT_OFF = { state: "EXITED", exitCode: 128, reason: "StartError", startedAt: 0n } as const;
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
      ...{ sandboxes: [aSandbox()], containers: [aRun({ state: "EXITED" })] },
      released: new Set(["s0"]),
    }),
    want: [],
  },
  {
    name: "a start that was cut off is made again, whatever is done of ends",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [aRun({ ...CUT_OFF, message: "failed to start: context canceled: unknown" })],
    }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "a start that was cut off while the shim's program began is made again",
    facts: podFacts({
      sandboxes: [aSandbox()],
      containers: [
        aRun({
          ...CUT_OFF,
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
      containers: [aRun({ ...CUT_OFF, message: "exec: no such file" })],
    }),
    want: ["stopSandbox"],
  },
  {
    name: "a dead sandbox goes before the next one comes",
    facts: podFacts({
      ...{ pod: always, sandboxes: [aSandbox({ state: "NOTREADY" })] },
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
              ...{ name: "compute", image: "i", imageID: "i", ready: true, restartCount: 0 },
              ...{ containerID: "fake://c0", state: { running: {} } },
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
      held: new Map([["container compute", { shown: SHOWN, pauseMs: 5 }]]),
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
      ...{ pod: deleted, sandboxes: [aSandbox()], hasRemains: true },
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
    facts: podFacts({ pod: aPod({ hostPID: true }), refusal: { reason: "r", message: "m" } }),
    want: [],
  },
])("$name", ({ facts, want }) => {
  expect(kinds(facts)).toEqual(want);
});

test("the grace is what is left of it", () => {
  const facts = podFacts({ pod: deleted, sandboxes: [aSandbox()], containers: [aRun()] });
  expect(planPod(facts, NOW_MS + 15_000)[0]).toEqual({
    ...{ kind: "stopContainer", id: "c0", graceSeconds: 5 },
  });
  expect(
    kinds({ ...facts, pod: aPod({}, { deletionTimestamp: new Date(0).toISOString() }) }),
  ).toEqual([...["stopSandbox", "removeSandbox", "removeRemains", "deleteObject"]]);
});

test("containers wait for those before them", () => {
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

describe("sandboxes that die at once are made ever later", () => {
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

test("no more than what --previous shows is kept of the dead", () => {
  const dead = [3, 2, 1].map((attempt) =>
    aRun({ id: `c${String(attempt)}`, attempt, state: "EXITED" }),
  );
  const facts = podFacts({
    ...{ pod: always, sandboxes: [aSandbox()] },
    containers: [aRun({ id: "c4", attempt: 4 }), ...dead],
  });
  expect(planPod(facts, NOW_MS)).toEqual([
    { kind: "removeContainer", id: "c2" },
    { kind: "removeContainer", id: "c1" },
  ]);
});

describe("a start is put off", () => {
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
    expect(restartDelayOf(aRun({ state: "EXITED", annotations, ...times }))).toBe(want);
  });
});
