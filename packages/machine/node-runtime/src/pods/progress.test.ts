// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import type { LivePodFacts, PodFacts } from "./facts.ts";
import { endOf, finalPhaseOf, nextInit, phaseOf } from "./progress.ts";

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

describe("a container's end", () => {
  test.each<{ name: string; pod?: Pod; containers?: PodFacts["containers"]; want: unknown }>([
    { name: "is none before it was made", want: undefined },
    { name: "is none while it runs", containers: [aRun()], want: undefined },
    {
      name: "is what the runtime has",
      containers: [aRun({ state: "EXITED", exitCode: 3 })],
      want: { exitCode: 3 },
    },
    {
      name: "is what the status reports where the runtime has forgotten it",
      pod: {
        ...aPod(),
        status: { containerStatuses: [aStatus("compute", { terminated: { exitCode: 5 } })] },
      },
      want: { exitCode: 5 },
    },
    {
      name: "is unknown where nobody saw it",
      pod: { ...aPod(), status: { containerStatuses: [aStatus("compute", { running: {} })] } },
      want: { exitCode: 137 },
    },
  ])("$name", ({ pod = aPod(), containers = [], want }) => {
    const end = endOf(live(pod, { containers }), aContainer());
    expect(end && { exitCode: end.exitCode }).toEqual(want);
  });
});

describe("the next init container", () => {
  const reported = (exitCode: number): Pod => ({
    ...WITH_INIT,
    status: { initContainerStatuses: [aStatus("init", { terminated: { exitCode } })] },
  });
  test.each<{ name: string; facts: LivePodFacts; want: string | undefined }>([
    { name: "is the first", facts: live(WITH_INIT), want: "init" },
    { name: "is none where there are none", facts: live(aPod()), want: undefined },
    {
      name: "stays the same while it runs",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init" })] }),
      want: "init",
    },
    {
      name: "stays the same when it failed",
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
      name: "is the first where the containers proper are of another sandbox",
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
      name: "is past those that the runtime has forgotten once a container proper was made",
      facts: live(reported(0), { containers: [aRun()] }),
      want: "second",
    },
    {
      name: "is not past one that the runtime has forgotten and that failed",
      facts: live(reported(1), { containers: [aRun()] }),
      want: "init",
    },
    {
      name: "is not past one that was forgotten before any container proper was made",
      facts: live(reported(0)),
      want: "init",
    },
  ])("$name", ({ facts, want }) => {
    expect(nextInit(facts)?.name).toBe(want);
  });
});

describe("a pod", () => {
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
      name: "runs when one of its containers does",
      facts: live(two, { containers: [aRun()] }),
      want: [undefined, "Running"],
    },
    {
      name: "runs when one of its containers has ended",
      facts: live(two, { containers: [aRun(DONE)] }),
      want: [undefined, "Running"],
    },
    {
      name: "that ran before runs",
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
      name: "has failed when one has",
      facts: live(two, {
        containers: [aRun(DONE), aRun({ name: "other", ...DONE, exitCode: 1 })],
      }),
      want: ["Failed", "Failed"],
    },
    {
      name: "goes on when its containers are to run again",
      facts: live(always, { containers: [aRun(DONE)] }),
      want: [undefined, "Running"],
    },
    {
      name: "has failed with an init container",
      facts: live(WITH_INIT, { containers: [aRun({ name: "init", ...DONE, exitCode: 1 })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "has not failed with an init container that is to run again",
      facts: live(aPod({ restartPolicy: "OnFailure", initContainers: [INIT] }), {
        containers: [aRun({ name: "init", ...DONE, exitCode: 1 })],
      }),
      want: [undefined, "Pending"],
    },
    {
      name: "that may not begin has failed",
      facts: live(aPod(), { sandboxes: [], refusal: { reason: "r", message: "m" } }),
      want: ["Failed", "Failed"],
    },
    {
      name: "that has begun may go on",
      facts: live(aPod(), { refusal: { reason: "r", message: "m" } }),
      want: [undefined, "Pending"],
    },
    {
      name: "that is never restarted has failed with its sandbox",
      facts: live(aPod(), { ...dead, containers: [aRun({ state: "UNKNOWN" })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "that is never restarted has failed with an init container's sandbox",
      facts: live(WITH_INIT, { ...dead, containers: [aRun({ name: "init", state: "UNKNOWN" })] }),
      want: ["Failed", "Failed"],
    },
    {
      name: "is not broken before anything was made in its sandbox",
      facts: live(aPod(), dead),
      want: [undefined, "Pending"],
    },
    {
      name: "that is restarted is not broken",
      facts: live(always, { ...dead, containers: [aRun({ state: "UNKNOWN" })] }),
      want: [undefined, "Pending"],
    },
    ...(["Succeeded", "Failed"] as const).map((phase) => ({
      name: `that was reported ${phase} stays so`,
      facts: live({ ...aPod(), status: { phase } }, { containers: [aRun()] }),
      want: [phase, phase] as [string, string],
    })),
  ])("$name", ({ facts, want }) => {
    expect([finalPhaseOf(facts), phaseOf(facts)]).toEqual(want);
  });
});
