// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { ContainerState } from "./containers.ts";
import type { PodFacts } from "./facts.ts";
import { planPod } from "./plan.ts";
import type { PodRecord } from "./record.ts";
import { aLauncherPod, aPodFacts } from "./testing.ts";

const ABSENT: ContainerState = { kind: "absent" };
const RUNNING: ContainerState = { kind: "running", init: { pid: 1, startTime: "1" } };
const NOW_MS = Date.parse("2026-01-01T00:00:10Z");

function deleted(deadline: string): Partial<PodFacts> {
  const metadata = { ...aLauncherPod().metadata, deletionTimestamp: deadline };
  return { pod: aLauncherPod({ metadata }) };
}

const record: PodRecord = {
  uid: "u",
  namespace: "ns",
  name: "a",
  bootId: "before",
  request: {
    containerId: "u",
    interfaceName: "eth0",
    config: { cniVersion: "1.0.0", name: "n", plugins: [] },
    args: [],
    capabilityArgs: {},
  },
};

test.each<{ name: string; facts: PodFacts; want: readonly string[] }>([
  {
    name: "a new pod gets sandbox, volumes and its container",
    facts: aPodFacts(ABSENT),
    want: ["createSandbox", "prepareVolumes", "startContainer"],
  },
  {
    name: "a sandbox that is there is kept",
    facts: aPodFacts(ABSENT, { hasSandbox: true }),
    want: ["prepareVolumes", "startContainer"],
  },
  {
    name: "what an earlier boot has left goes first",
    facts: aPodFacts(ABSENT, { record }),
    want: ["removeSandbox", "createSandbox", "prepareVolumes", "startContainer"],
  },
  {
    name: "an image that is missing is waited for",
    facts: aPodFacts(ABSENT, { missingImages: ["x"] }),
    want: [],
  },
  { name: "a running pod is left alone", facts: aPodFacts(RUNNING), want: [] },
  {
    name: "a container that ended is not started again",
    facts: aPodFacts({ kind: "exited", exitCode: 1 }),
    want: [],
  },
  {
    name: "a finished pod is left alone, also after a reboot",
    facts: aPodFacts(ABSENT, { pod: aLauncherPod({ status: { phase: "Failed" } }) }),
    want: [],
  },
  {
    name: "a deleted pod is asked to end and waited for",
    facts: aPodFacts(RUNNING, deleted("2026-01-01T00:00:30Z")),
    want: ["terminateContainer", "wait"],
  },
  {
    name: "at the deadline it is ended",
    facts: aPodFacts(RUNNING, deleted("2026-01-01T00:00:10Z")),
    want: ["removePod", "deleteObject"],
  },
  {
    name: "a deleted pod that ended is removed at once",
    facts: aPodFacts({ kind: "exited", exitCode: 0 }, deleted("2026-01-01T00:00:30Z")),
    want: ["removePod", "deleteObject"],
  },
  {
    name: "of a deleted pod with no remains only the object goes",
    facts: aPodFacts(ABSENT, { ...deleted("2026-01-01T00:00:30Z"), hasRemains: false }),
    want: ["deleteObject"],
  },
  {
    name: "the remains of a pod whose object is gone are removed",
    facts: aPodFacts(RUNNING, { pod: undefined, containers: [] }),
    want: ["removePod"],
  },
  {
    name: "nothing is left to do for a pod that is gone",
    facts: aPodFacts(ABSENT, { pod: undefined, containers: [], hasRemains: false }),
    want: [],
  },
])("$name", ({ facts, want }) => {
  expect(planPod(facts, NOW_MS).map(({ kind }) => kind)).toEqual(want);
});

test("the wait ends at the deadline at the latest", () => {
  const facts = aPodFacts(RUNNING, deleted("2026-01-01T00:00:11.500Z"));
  expect(planPod(facts, NOW_MS).at(-1)).toEqual({ kind: "wait", ms: 1500 });
});
