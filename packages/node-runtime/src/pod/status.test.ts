// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { ContainerState } from "./containers.ts";
import { podStatusOf } from "./status.ts";
import { aLauncherPod, aPodFacts } from "./testing.ts";

const CONTEXT = { hostIp: "192.0.2.1", podIps: ["10.0.0.2"], now: "2026-01-01T00:00:00.000Z" };
const RUNNING: ContainerState = { kind: "running", init: { pid: 1, startTime: "1" } };

describe("status of a pod", () => {
  test.each<{ name: string; state: ContainerState; phase: string; ready: string }>([
    { name: "before its container", state: { kind: "absent" }, phase: "Pending", ready: "False" },
    { name: "with its container", state: RUNNING, phase: "Running", ready: "True" },
    {
      name: "after success",
      state: { kind: "exited", exitCode: 0 },
      phase: "Succeeded",
      ready: "False",
    },
    {
      name: "after failure",
      state: { kind: "exited", exitCode: 1 },
      phase: "Failed",
      ready: "False",
    },
  ])("$name", ({ state, phase, ready }) => {
    const status = podStatusOf(aPodFacts(state), CONTEXT);
    expect(status.phase).toBe(phase);
    expect(status.conditions?.find(({ type }) => type === "Ready")?.status).toBe(ready);
    expect(status.podIPs).toEqual([{ ip: "10.0.0.2" }]);
  });

  test("names the image that is missing and what to do", () => {
    const facts = aPodFacts({ kind: "absent" }, { missingImages: ["guest"] });
    expect(podStatusOf(facts, CONTEXT).containerStatuses?.[0]?.state.waiting).toEqual({
      reason: "ErrImageNeverPull",
      message: "image guest is not there; add it with: patchbay image add guest DIR",
    });
  });

  test("says why the last attempt failed", () => {
    const status = podStatusOf(aPodFacts({ kind: "absent" }), { ...CONTEXT, failure: "no bridge" });
    expect(status.containerStatuses?.[0]?.state.waiting?.message).toBe("no bridge");
  });

  test("is the same later, when nothing has changed", () => {
    const first = podStatusOf(aPodFacts(RUNNING), CONTEXT);
    const facts = aPodFacts(RUNNING, { pod: aLauncherPod({ status: first }) });
    expect(podStatusOf(facts, { ...CONTEXT, now: "2026-02-02T00:00:00.000Z" })).toEqual(first);
  });
});
